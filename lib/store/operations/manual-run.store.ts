import { RunRefusedError } from '../../errors/run-refused.error.js';
import { carryOut } from './carry-out.js';
import { queryOn } from '../connection/query.js';
import type { ReadOperator } from './operated-job.js';
import type { PartitionStore } from '../upkeep/partition.store.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** What a person may say about a run that is in the way: refuse this one, wait for it, or run beside it. */
export type ManualOverlap = 'forbid' | 'queue' | 'allow';

/** A run that somebody asks for. */
export interface ManualRun {
  readonly jobName: string;
  /** Null: the job's own policy. */
  readonly overlap: ManualOverlap | null;
  /** For its handler; undefined for what the job has. */
  readonly data: unknown;
  /** Why its flag is off, whatever the table says; null when it is not. */
  readonly flagOff: string | null;
}

/** Milliseconds in which a free place is looked for. */
const PLACES = 5_000;

interface Facts {
  readonly flag: string;
  readonly instanceId: string;
  readonly fireTime: string;
}

/** Why a run is refused, by verdict. */
const WHY: Readonly<Record<string, (facts: Facts, run: ManualRun) => string>> = {
  disabled: () => 'it is disabled; enable it first',
  paused: () => 'it is paused; resume it first',
  'flag off': ({ flag }) => `its flag ${flag} is off`,
  'switched off': (_, { flagOff }) => flagOff!,
  running: ({ instanceId }) => `a run of it is under way on ${instanceId}, and its overlap is forbidden; wait, cancel that run, or ask with overlap: 'queue'`,
  waiting: ({ fireTime }) => `one that was asked for at ${new Date(fireTime).toISOString()} waits already`,
  full: () => `it was asked for ${PLACES} times within seconds`,
};

/**
 * Adds runs of their own identity: their fire time is when they were asked for, and has a part of a second, which no
 * occurrence has. Whether one may run now is judged behind the lock of its job, behind which claims are made: of two
 * clicks the second one sees the first one's row.
 */
export class ManualRunStore {
  constructor(
    private readonly database: SchedulerDatabase,
    private readonly partitions: PartitionStore,
  ) {}

  /**
   * @returns its fire time
   * @throws UnknownJobError, RenamedJobError; RunRefusedError when the job is held back, or a run is in the way
   */
  async add(run: ManualRun, { by, reason }: ReadOperator): Promise<Date> {
    const { jobName, overlap, data, flagOff } = run;
    const details = { ...(overlap && { overlap }), ...(data !== undefined && { data }) };
    const values = [jobName, overlap, data === undefined ? null : JSON.stringify(data), flagOff, by, reason, JSON.stringify(details)];
    const { verdict, facts } = await this.partitions.makingSure(
      () => this.now(),
      () => carryOut<Facts>(this.database, 'run_now_1', values, { verb: 'run', jobName }),
    );
    if (verdict !== 'added') throw new RunRefusedError(jobName, 'run now', WHY[verdict]!(facts, run));
    return new Date(facts.fireTime);
  }

  /** From when to when its place may be. */
  private async now(): Promise<Date[]> {
    const [clock] = await queryOn(this.database.coordination)<{ now: Date }>('select clock_timestamp() as now');
    return [clock!.now, new Date(clock!.now.getTime() + PLACES)];
  }
}
