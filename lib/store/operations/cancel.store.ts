import type { RunKey, RunStatus } from '../../domain/runs/run.js';
import { RunRefusedError } from '../../errors/run-refused.error.js';
import { askedToStop, readAskedToStop, type AskedToStop, type AskedToStopRow } from '../runs/asked-to-stop.js';
import { carryOut } from './carry-out.js';
import type { ReadOperator } from './operated-job.js';
import { queryOn } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

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
    const at = fireTime.toISOString();
    const asked = { verb: 'cancel', jobName, what: `the run of job "${jobName}" of ${at}` };
    const { verdict, facts } = await carryOut<{ status: RunStatus } | null>(this.database, 'run_cancel_1', [jobName, at, by, reason], asked);
    if (verdict === 'cancelled' || verdict === 'requested') return verdict;
    throw new RunRefusedError(jobName, `cancel the run of ${at}`, facts ? `it is ${facts.status} already` : 'there is no such run');
  }

  /** What the handlers of an instance are to stop for. @param flags those that are asked for */
  async asked(instanceId: string, flags: readonly string[]): Promise<AskedToStop> {
    const { coordination, tables } = this.database;
    const [row] = await queryOn(coordination)<AskedToStopRow>(`select ${askedToStop(tables, '$1', '$2::text[]')}`, [instanceId, flags]);
    return readAskedToStop(row!);
  }
}
