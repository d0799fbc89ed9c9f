import type { RunKey, RunTrigger, SavedCheckpoint } from '../../domain/runs/run.js';
import { nameOfRules, rulesOf } from './batch-rules.js';
import type { DueOccurrence, WaitingRun } from './claim-candidates.js';
import { given } from './claim-recordset.js';
import { insertDue } from './insert-due.js';
import { startWaiting } from './start-waiting.js';
import { queryOn, type Query } from '../connection/query.js';
import { lockJobs } from './job-locks.js';
import { inOnePreparedMessage } from '../connection/one-message.js';
import type { PreparableStatement } from '../connection/pg-session.js';
import type { PartitionStore } from '../upkeep/partition.store.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** What the database said to one candidate. */
export type ClaimVerdict =
  /** It is ours: `attempt` and `leaseUntil` are set. */
  | 'claimed'
  /** Its pages begin again, without its tick and without an owner: `attempt` and `pages` are set. */
  | 'fanned_out'
  /** It has a row that says why it does not run: `reason` is set. */
  | 'skipped'
  /** It has a row that waits: it starts when the run of a backfill that is in its way has ended. */
  | 'queued'
  /** Somebody else decided it. */
  | 'taken'
  /** By the database's clock it is not due yet. */
  | 'early'
  /** It is no occurrence of its job: that has another schedule by now, or another name, or is no more. */
  | 'outdated'
  /** It is late, and a run of its job that began after it was due is in the way: to be tried again. */
  | 'waiting';

/** What became of one candidate. What its verdict does not set is null. */
export interface ClaimAnswer extends RunKey {
  readonly verdict: ClaimVerdict;
  readonly reason: string | null;
  readonly attempt: number | null;
  readonly releases: number | null;
  readonly trigger: RunTrigger | null;
  readonly beside: boolean;
  readonly leaseUntil: Date | null;
  readonly pages: number | null;
  /** Of a run that was given its own; null otherwise. */
  readonly data: unknown;
  /** What an earlier attempt has saved; null for nothing; undefined where it is too large to come along. */
  readonly checkpoint?: SavedCheckpoint | null;
}

/** The answers to one batch, and the database's clock when it gave them. */
export interface ClaimAnswers {
  readonly databaseNow: Date;
  readonly answers: ClaimAnswer[];
}

/**
 * The statements that turn an occurrence into a run of one instance.
 *
 * A rule about *other* runs of the job (overlap) can't be judged in the statement that inserts: under read committed it
 * sees the rows from before it began, so two replicas with two fire times of one job would each see none. Therefore a
 * claim first takes the locks of its jobs and then looks, in a second statement of the same transaction. Where overlap is
 * allowed the unique key alone would do; but of two inserts at the same moment the loser's would be written and undone.
 */
export class ClaimStore {
  private readonly query: Query;

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {
    this.query = queryOn(database.coordination);
  }

  /** Those of these occurrences that have a row. */
  async withRow(keys: readonly RunKey[]): Promise<RunKey[]> {
    if (keys.length === 0) return [];
    return this.query<RunKey>(
      `select run.job_name as "jobName", run.fire_time as "fireTime"
       from   unnest($1::text[], $2::timestamptz[]) as given (job_name, fire_time)
       join   ${this.database.tables.jobRuns} run on run.job_name = given.job_name and run.fire_time = given.fire_time`,
      [keys.map(({ jobName }) => jobName), keys.map(({ fireTime }) => fireTime.toISOString())],
    );
  }

  /** Claims what is due and free, in one batch and one round trip. Losers write nothing. */
  async claimDue(due: readonly DueOccurrence[], instanceId: string): Promise<ClaimAnswers> {
    if (due.length === 0) return answers([]);
    // One named twice would be answered twice, and both times as claimed.
    const sorted = [...due].sort(byKey).filter((one, index, all) => index === 0 || byKey(all[index - 1]!, one) !== 0);
    const { tables } = this.database;
    const rules = rulesOf(sorted);
    const times = sorted.map(({ fireTime }) => fireTime.getTime());
    return this.partitions.makingSure(
      () => sorted.map(({ fireTime }) => fireTime),
      () =>
        this.claim(sorted, {
          name: nameOfRules(rules),
          sql: ([candidates, instance, from, until]) => insertDue(tables, rules, { candidates: candidates!, instanceId: instance!, from: from!, until: until! }),
          values: [sorted.map(given), instanceId, new Date(Math.min(...times)), new Date(Math.max(...times))],
        }),
    );
  }

  /**
   * Claims runs that wait for their next attempt. At most one of a job that forbids overlap, and none beside a running one;
   * of a backfill no more than it runs at a time, and none that would keep the schedule waiting.
   */
  async claimWaiting(waiting: readonly WaitingRun[], instanceId: string): Promise<ClaimAnswers> {
    const sorted = [...waiting].sort(byKey);
    const { tables } = this.database;
    return this.claim(sorted, { name: 'start_waiting', sql: ([candidates, instance]) => startWaiting(tables, candidates!, instance!), values: [sorted.map(given), instanceId] });
  }

  /** Behind the locks of the candidates' jobs and groups. */
  private async claim(candidates: readonly (DueOccurrence | WaitingRun)[], statement: PreparableStatement): Promise<ClaimAnswers> {
    const jobs = candidates.map(({ jobName }) => jobName);
    const groups = candidates.flatMap(({ group }) => (group ? [groupLock(group)] : []));
    const names = [...new Set([...jobs, ...groups])].sort();
    const { tables, coordination } = this.database;
    const lock = { name: 'lock_jobs', sql: ([given]: readonly string[]) => lockJobs(tables.schema, given!), values: [names] };
    return answers(await inOnePreparedMessage<ClaimRow>(coordination, [lock, statement]));
  }
}

/** Beside the names of jobs: of two that are the same, each only waits a little longer. */
function groupLock(group: string): string {
  return `concurrency group ${group}`;
}

interface ClaimRow {
  job_name: string;
  fire_time: Date;
  verdict: ClaimVerdict;
  reason: string | null;
  attempt: number | null;
  releases: number | null;
  trigger: RunTrigger | null;
  beside?: boolean;
  lease_until: Date | null;
  pages?: number | null;
  data?: unknown;
  has_checkpoint?: boolean;
  /** The one value in an array: it may be null. */
  checkpoint?: [unknown] | null;
  now: Date;
}

function answers(rows: readonly ClaimRow[]): ClaimAnswers {
  return {
    databaseNow: rows[0]?.now ?? new Date(NaN),
    answers: rows.map((row) => ({
      jobName: row.job_name,
      fireTime: row.fire_time,
      verdict: row.verdict,
      reason: row.reason,
      attempt: row.attempt,
      releases: row.releases,
      trigger: row.trigger,
      beside: row.beside ?? false,
      leaseUntil: row.lease_until,
      pages: row.pages ?? null,
      data: row.data ?? null,
      checkpoint: checkpointOf(row),
    })),
  };
}

function checkpointOf({ has_checkpoint: there, checkpoint }: ClaimRow): SavedCheckpoint | null | undefined {
  if (!there) return null;
  return checkpoint ? { value: checkpoint[0] } : undefined;
}

/** Rows are written in the order of their key, so that two batches never wait for each other crosswise. */
function byKey(a: RunKey, b: RunKey): number {
  if (a.jobName !== b.jobName) return a.jobName < b.jobName ? -1 : 1;
  return a.fireTime.getTime() - b.fireTime.getTime();
}
