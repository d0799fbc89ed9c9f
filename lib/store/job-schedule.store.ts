import type { JobDefinition } from '../domain/job-definition.js';
import { queryOn, type Query } from './query.js';
import type { SchedulerDatabase } from './scheduler-database.js';

/** From where a job's occurrences have to be looked at. */
export interface RegisteredSchedule {
  readonly name: string;
  readonly effectiveFrom: Date;
  readonly decidedUntil: Date;
}

/** Everything up to here has a row, by one expression in one zone. */
export interface Watermark {
  readonly job: JobDefinition;
  readonly decidedUntil: number;
}

/** What the code declares about its jobs, and how far each has been decided. */
export class JobScheduleStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /**
   * Writes the declarations, all in one statement. A new job has no past, and a changed expression or zone holds from
   * now on. What an operator set (enabled, paused) stays.
   */
  async register(jobs: readonly JobDefinition[]): Promise<{ databaseNow: Date; schedules: RegisteredSchedule[] }> {
    const sorted = [...jobs].sort((a, b) => (a.name < b.name ? -1 : 1));
    const rows = await this.query<{ name: string | null; effective_from: Date; decided_until: Date; now: Date }>(
      `with registered as (
         insert into ${this.database.tables.jobSchedule} as stored (name, cron, time_zone, owner, policies)
         select declared.name, declared.cron, declared.time_zone, declared.owner, declared.policies
         from   unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::jsonb[])
                  as declared (name, cron, time_zone, owner, policies)
         on conflict (name) do update
         set    cron = excluded.cron,
                time_zone = excluded.time_zone,
                owner = excluded.owner,
                policies = excluded.policies,
                declared_at = clock_timestamp(),
                effective_from = case
                  when stored.cron = excluded.cron and stored.time_zone = excluded.time_zone then stored.effective_from
                  else clock_timestamp() end,
                decided_until = case
                  when stored.cron = excluded.cron and stored.time_zone = excluded.time_zone then stored.decided_until
                  else clock_timestamp() end
         returning name, effective_from, decided_until
       )
       select clock_timestamp() as now, name, effective_from, decided_until
       from  (select) as always
       left   join registered on true`,
      [
        sorted.map(({ name }) => name),
        sorted.map(({ schedule }) => schedule.expression),
        sorted.map(({ schedule }) => schedule.timeZone),
        sorted.map(({ owner }) => owner),
        sorted.map((job) => JSON.stringify(policiesOf(job))),
      ],
    );
    return {
      databaseNow: rows[0]!.now,
      schedules: rows.flatMap(({ name, effective_from, decided_until }) =>
        name === null ? [] : [{ name, effectiveFrom: effective_from, decidedUntil: decided_until }],
      ),
    };
  }

  /** Remembers how far jobs are decided, in one statement; never backwards, and never for an expression that was replaced. */
  async remember(watermarks: readonly Watermark[]): Promise<void> {
    const sorted = [...watermarks].sort((a, b) => (a.job.name < b.job.name ? -1 : 1));
    await this.query(
      `update ${this.database.tables.jobSchedule} schedule
       set    decided_until = seen.decided_until
       from  (select *
              from   unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[])
                       as seen (name, cron, time_zone, decided_until)) seen
       where  schedule.name = seen.name
       and    schedule.cron = seen.cron
       and    schedule.time_zone = seen.time_zone
       and    schedule.decided_until < seen.decided_until`,
      [
        sorted.map(({ job }) => job.name),
        sorted.map(({ job }) => job.schedule.expression),
        sorted.map(({ job }) => job.schedule.timeZone),
        sorted.map(({ decidedUntil }) => new Date(decidedUntil).toISOString()),
      ],
    );
  }
}

/** What people read in the database; the code's declaration is what counts. */
function policiesOf(job: JobDefinition): Record<string, unknown> {
  const { overlap, missed, catchUpWindowMs, maxCatchUp, lateAfterMs, leaseMs, renewEveryMs, jitterMs, maxAttempts, backoff } = job;
  const retry = backoff.kind === 'function' ? { kind: 'function' } : backoff;
  return { overlap, missed, catchUpWindowMs, maxCatchUp, lateAfterMs, leaseMs, renewEveryMs, jitterMs, maxAttempts, backoff: retry };
}
