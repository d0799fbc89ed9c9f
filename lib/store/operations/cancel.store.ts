import type { RunKey, RunStatus } from '../../domain/runs/run.js';
import { RunRefusedError } from '../../errors/run-refused.error.js';
import { askedToStop, readAskedToStop, type AskedToStop, type AskedToStopRow } from '../runs/asked-to-stop.js';
import type { ReadOperator } from './operated-job.js';
import { queryOn } from '../connection/query.js';
import { recordAction } from './record-action.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { inTransaction } from '../connection/transaction.js';
import { tellingInstance } from '../wake-up.js';

/** What became of a run that somebody cancelled. */
export type Cancelled =
  /** It waited, and is over. */
  | 'cancelled'
  /** It runs: its handler is told to stop as soon as its instance looks, and the run ends as cancelled when it has. */
  | 'requested';

/** Ends runs that wait, and asks for the end of runs that are under way. */
export class CancelStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** @throws RunRefusedError when there is no such run, or it has ended */
  async cancel({ jobName, fireTime }: RunKey, { by, reason }: ReadOperator): Promise<Cancelled> {
    const { coordination, tables } = this.database;
    const why = `cancelled by ${by}${reason ? `: ${reason}` : ''}`;
    return inTransaction(coordination, async (query) => {
      const [run] = await query<{ was: RunStatus }>(
        `with seen as (
           select job_name, fire_time, status, claimed_by
           from   ${tables.jobRuns}
           where  job_name = $1
           and    fire_time = $2
           for    update
         ),
         waiting as (
           update ${tables.jobRuns} run
           set    status = 'cancelled',
                  reason = $3,
                  finished_at = clock_timestamp(),
                  next_attempt_at = null
           from   seen
           where  run.job_name = seen.job_name
           and    run.fire_time = seen.fire_time
           and    seen.status in ('queued', 'failed', 'orphaned')
         ),
         running as (
           update ${tables.jobRuns} run
           set    cancel_requested_at = coalesce(run.cancel_requested_at, clock_timestamp()),
                  cancel_reason = coalesce(run.cancel_reason, $3)
           from   seen
           where  run.job_name = seen.job_name
           and    run.fire_time = seen.fire_time
           and    seen.status in ('running', 'fanned_out')
         )
         select status as was, case when status = 'running' then ${tellingInstance(tables, 'claimed_by')} end from seen`,
        [jobName, fireTime.toISOString(), why],
      );
      const done = run && outcomeOf(run.was);
      if (!done) throw new RunRefusedError(jobName, `cancel the run of ${fireTime.toISOString()}`, run ? `it is ${run.was} already` : 'there is no such run');
      await recordAction(query, tables, { action: 'cancel', jobName, fireTime, by, reason, details: { was: run.was } });
      return done;
    });
  }

  /** What the handlers of an instance are to stop for. @param flags those that are asked for */
  async asked(instanceId: string, flags: readonly string[]): Promise<AskedToStop> {
    const { coordination, tables } = this.database;
    const [row] = await queryOn(coordination)<AskedToStopRow>(`select ${askedToStop(tables, '$1', '$2::text[]')}`, [instanceId, flags]);
    return readAskedToStop(row!);
  }
}

function outcomeOf(was: RunStatus): Cancelled | null {
  if (was === 'running' || was === 'fanned_out') return 'requested';
  return was === 'queued' || was === 'failed' || was === 'orphaned' ? 'cancelled' : null;
}
