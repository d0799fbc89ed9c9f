import type { TestDatabase } from '../../support/database.js';
import type { EarlierAttempt } from '../../../lib/runs/job-run.entity.js';
import type { RunKey, RunStatus, RunTrigger } from '../../../lib/options/run.js';

/** A row of `job_runs`. */
export interface RunRow extends RunKey {
  readonly status: RunStatus;
  readonly trigger: RunTrigger;
  readonly reason: string | null;
  /** A row that covers a gap: the first fire time; the last is its own. */
  readonly gapFrom: Date | null;
  readonly attempt: number;
  readonly releases: number;
  readonly claimedBy: string | null;
  readonly leaseUntil: Date | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  readonly earlierAttempts: readonly EarlierAttempt[];
}

/** A row of `effects`: something a handler did. */
export interface EffectRow extends RunKey {
  readonly entity: string;
  readonly replica: string;
  readonly attempt: number;
  readonly at: Date;
}

export interface ReceiptRow extends RunKey {
  readonly entity: string;
  readonly attempt: number;
  readonly claimedBy: string;
  readonly state: string;
}

/** What tests judge by: the rows in the database, never what a process says about itself. */
export class Ledger {
  constructor(
    private readonly database: TestDatabase,
    private readonly schema: string,
  ) {}

  async prepare(): Promise<void> {
    await this.database.query(`
      create table public.effects (
        job       text        not null,
        fire_time timestamptz not null,
        replica   text        not null,
        attempt   integer     not null,
        entity    text        not null,
        at        timestamptz not null default clock_timestamp()
      )`);
  }

  async now(): Promise<Date> {
    const [row] = await this.database.query<{ now: Date }>('select clock_timestamp() as now');
    return row!.now;
  }

  async run({ jobName, fireTime }: RunKey): Promise<RunRow> {
    const [row] = (await this.runs(jobName)).filter((run) => run.fireTime.getTime() === fireTime.getTime());
    if (!row) throw new Error(`${jobName} of ${fireTime.toISOString()} has no row.`);
    return row;
  }

  /** Oldest first. */
  runs(jobName: string): Promise<RunRow[]> {
    return this.database.query<RunRow>(
      `select job_name as "jobName", fire_time as "fireTime", status, reason, trigger, gap_from as "gapFrom", attempt, releases, claimed_by as "claimedBy",
              lease_until as "leaseUntil", started_at as "startedAt", finished_at as "finishedAt",
              earlier_attempts as "earlierAttempts"
       from   "${this.schema}".job_runs
       where  job_name = $1
       order  by fire_time`,
      [jobName],
    );
  }

  /** In the order they happened. */
  effects(jobName: string, fireTime?: Date): Promise<EffectRow[]> {
    return this.database.query<EffectRow>(
      `select job as "jobName", fire_time as "fireTime", entity, replica, attempt, at
       from   public.effects
       where  job = $1
       and    ($2::timestamptz is null or fire_time = $2)
       order  by at`,
      [jobName, fireTime?.toISOString() ?? null],
    );
  }

  receipts({ jobName, fireTime }: RunKey): Promise<ReceiptRow[]> {
    return this.database.query<ReceiptRow>(
      `select job_name as "jobName", fire_time as "fireTime", entity, attempt, claimed_by as "claimedBy", state
       from   "${this.schema}".receipts
       where  job_name = $1
       and    fire_time = $2
       order  by entity`,
      [jobName, fireTime.toISOString()],
    );
  }

  /** How often two sessions of this database have waited for each other. */
  async deadlocks(): Promise<number> {
    const [row] = await this.database.query<{ deadlocks: string }>(
      'select deadlocks from pg_stat_database where datname = current_database()',
    );
    return Number(row!.deadlocks);
  }
}
