import type { GoneRun } from './fast-failover.js';
import type { RunKey } from '../options/run.js';
import type { FunctionValue } from '../database/call-function.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';

/** More are found at the next look. */
const MOST_AT_A_LOOK = 1_000;

/** What one look at the others has found. */
export interface OthersSeen {
  /** Runs of other instances are under way. */
  readonly run: boolean;
  /** Those whose owner says that it holds a lock, and does not. */
  readonly gone: readonly GoneRun[];
}

/** An attempt whose lease was cut short. */
export interface CutRun extends RunKey {
  readonly attempt: number;
  readonly instanceId: string;
}

interface GoneRow {
  readonly jobName: string;
  readonly fireTime: string;
  readonly attempt: number;
  readonly instanceId: string;
  readonly lifeline: string;
}

/** Finds runs whose owner's liveness lock is not there, and ends their leases. */
export class GoneOwnersStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** @param instanceId who looks */
  async look(instanceId: string): Promise<OthersSeen> {
    const [row] = await this.database.call<{ run: boolean; gone: GoneRow[] | null }>('others_gone_1', [
      instanceId,
      MOST_AT_A_LOOK,
    ]);
    return { run: row!.run, gone: (row!.gone ?? []).map((gone) => ({ ...gone, fireTime: new Date(gone.fireTime) })) };
  }

  /**
   * Ends the leases of runs whose owner's liveness lock is the same as it was seen, and is still not there. Their rows say
   * why, and every instance looks at what can be started now.
   */
  async takeOver(runs: readonly GoneRun[]): Promise<CutRun[]> {
    const values = [...columnsOf(runs), runs.map(({ instanceId }) => instanceId), runs.map(({ lifeline }) => lifeline)];
    return (await this.database.call<CutRow>('job_run_take_over_1', values)).map(cutRun);
  }

  /**
   * Ends the leases of runs that this instance has told its handlers to stop: others need not wait for them. The
   * attempts do not count, as those that are handed back: a database that was away for a moment is not the run's fault.
   */
  async giveUp(runs: readonly (RunKey & { readonly attempt: number })[], instanceId: string): Promise<CutRun[]> {
    return (await this.database.call<CutRow>('job_run_give_up_1', [...columnsOf(runs), instanceId])).map(cutRun);
  }
}

interface CutRow {
  readonly job_name: string;
  readonly fire_time: Date;
  readonly attempt: number;
  readonly claimed_by: string;
}

function cutRun({ job_name, fire_time, attempt, claimed_by }: CutRow): CutRun {
  return { jobName: job_name, fireTime: fire_time, attempt, instanceId: claimed_by };
}

function columnsOf(runs: readonly (RunKey & { readonly attempt: number })[]): FunctionValue[] {
  return [
    runs.map(({ jobName }) => jobName),
    runs.map(({ fireTime }) => fireTime.toISOString()),
    runs.map(({ attempt }) => attempt),
  ];
}
