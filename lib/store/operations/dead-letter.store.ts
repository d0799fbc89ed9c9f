import type { RunKey, RunStatus } from '../../domain/runs/run.js';
import { carryOut } from './carry-out.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** Who, and why. */
export interface Actor {
  readonly by: string;
  readonly reason: string | null;
}

/** What became of one run: how it was, and whether it was changed. */
export interface ChangedRun {
  readonly changed: boolean;
  readonly status: RunStatus;
  /** How many occurrences its row stands for, where that is a gap. */
  readonly gapCount: number | null;
  /** Its job was taken out: nobody would start it. */
  readonly removed: boolean;
}

/** Begins ended runs again, or ends them for good. Of two people, or a person and a claim, the first wins. */
export class DeadLetterStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Makes a run claimable now. What it has of attempts does not count any more, its key and its receipts stay. It leaves a
   * backfill that is active.
   * @param allowed the statuses it may have
   * @returns null when there is no such run
   */
  replay(key: RunKey, allowed: readonly RunStatus[], actor: Actor): Promise<ChangedRun | null> {
    return this.change('replay', key, allowed, actor);
  }

  /** Ends a run that waits for a person, or for its next attempt. @returns null when there is no such run */
  discard(key: RunKey, allowed: readonly RunStatus[], actor: Actor): Promise<ChangedRun | null> {
    return this.change('discard', key, allowed, actor);
  }

  private async change(verb: 'replay' | 'discard', { jobName, fireTime }: RunKey, allowed: readonly RunStatus[], { by, reason }: Actor): Promise<ChangedRun | null> {
    const at = fireTime.toISOString();
    const asked = { verb, jobName, what: `the run of job "${jobName}" of ${at}` };
    const { verdict, facts } = await carryOut<Omit<ChangedRun, 'changed'>>(this.database, `run_${verb}_1`, [jobName, at, allowed, by, reason], asked);
    return verdict === 'unknown run' ? null : { ...facts, changed: verdict === 'changed' };
  }
}
