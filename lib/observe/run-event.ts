import type { LeaseLoss } from '../errors/run.errors.js';
import type { StoredError } from '../errors/stored-error.js';
import type { OwnedRun, RunKey, RunTrigger } from '../options/run.js';

/** One attempt of one occurrence. */
export interface AttemptFacts extends RunKey {
  readonly attempt: number;
}

/** One attempt of one page; the attempt is the page's. */
export interface PageFacts extends AttemptFacts {
  readonly page: string;
}

/** What is told about an occurrence, its pages and its effects. What ends in `Ms` is milliseconds. */
export type RunFact =
  /** The occurrence is this instance's. Losing a claim is no event. */
  | ({ readonly type: 'run.claimed' } & OwnedRun)
  | ({ readonly type: 'run.started'; readonly delayMs: number } & AttemptFacts)
  | ({ readonly type: 'run.completed'; readonly durationMs: number } & AttemptFacts)
  /** The handler of a run that it had completed before has ended, too; what it threw, if it did, changes nothing. */
  | ({ readonly type: 'run.woundUp'; readonly error: StoredError | null } & AttemptFacts)
  | ({
      readonly type: 'run.failed';
      readonly durationMs: number;
      readonly error: StoredError;
      readonly retryInMs: number;
    } & AttemptFacts)
  /** The run waits for a person: its attempts are used up, or as `reason` says. */
  | ({ readonly type: 'run.dead'; readonly error: StoredError; readonly reason?: string } & AttemptFacts)
  /** It was cancelled, and has ended. */
  | ({ readonly type: 'run.cancelled'; readonly reason: string } & AttemptFacts)
  /** Once for each attempt that takes longer than the job's `budget`: it goes on. */
  | ({ readonly type: 'run.overBudget'; readonly budgetMs: number; readonly runningMs: number } & AttemptFacts)
  /** Its signal was aborted, because it has taken the time that this option of the job allows. */
  | ({
      readonly type: 'run.timedOut';
      readonly limit: 'timeout' | 'maxRunTime';
      readonly runningMs: number;
    } & AttemptFacts)
  /**
   * Once for each attempt: seconds after its signal was aborted its handler has not ended; or, not `told` so because
   * the job has no `timeout`, seconds after its `budget`. It may never end.
   */
  | ({ readonly type: 'run.stuck'; readonly told: boolean; readonly runningMs: number } & AttemptFacts)
  /**
   * Its handler has not ended, though its lease is lost and its `maxRunTime` is over: nothing waits for it any more.
   */
  | ({ readonly type: 'run.abandoned' } & AttemptFacts)
  /** Handed back: by a stopping instance, or because the answer to its claim was lost. Another starts it at once. */
  | ({ readonly type: 'run.released' } & AttemptFacts)
  /** Its handler was told to stop, and has: somebody cancelled the run, or turned its flag off. */
  | ({ readonly type: 'run.cancelled'; readonly reason: string } & AttemptFacts)
  /** The occurrence has a row that says why it did not run. */
  | ({ readonly type: 'run.skipped'; readonly reason: string } & RunKey)
  /** The occurrence has a row and waits for its turn: from a backfill, or because a backfill's run was in its way. */
  | ({ readonly type: 'run.queued'; readonly trigger: RunTrigger } & RunKey)
  /**
   * Missed occurrences were decided; `recorded` of them will not run, `heldBack` of those because the job was paused or
   * disabled.
   */
  | {
      readonly type: 'run.missed';
      readonly jobName: string;
      readonly queued: readonly Date[];
      readonly recorded: number;
      readonly heldBack: number;
      readonly from: Date;
      readonly until: Date;
    }
  /** A lease ran out and the reaper made the run claimable again. */
  | ({
      readonly type: 'run.orphaned';
      readonly claimedBy: string;
      readonly reason: string;
      readonly overdueMs: number;
    } & AttemptFacts)
  /** The handler's signal was aborted: what it still writes is refused. */
  | ({ readonly type: 'lease.lost'; readonly cause: LeaseLoss } & AttemptFacts)
  /** What a former owner wanted to write was refused by the fence. */
  | ({
      readonly type: 'run.refused';
      readonly write: 'completion' | 'failure' | 'release' | 'cancellation';
    } & AttemptFacts)
  /** Its handler has ended, and the occurrence is its pages' from now on. */
  | ({ readonly type: 'run.fannedOut'; readonly pages: number; readonly durationMs: number } & AttemptFacts)
  /** Of the pages that a handler published, so many were not there yet. */
  | ({ readonly type: 'pages.published'; readonly added: number; readonly published: number } & AttemptFacts)
  | ({ readonly type: 'page.started' } & PageFacts)
  | ({ readonly type: 'page.completed'; readonly durationMs: number } & PageFacts)
  | ({ readonly type: 'page.failed'; readonly error: StoredError; readonly retryInMs: number } & PageFacts)
  /** It waits for a person; the others go on, and `run.dead` follows when all have ended. */
  | ({ readonly type: 'page.dead'; readonly error: StoredError; readonly reason: string } & PageFacts)
  /** Its occurrence was cancelled. */
  | ({ readonly type: 'page.cancelled'; readonly reason: string } & PageFacts)
  /** Handed back by a stopping instance. */
  | ({ readonly type: 'page.released' } & PageFacts)
  /** The queue has delivered it again, and what this attempt still writes is refused. */
  | ({ readonly type: 'page.lost' } & PageFacts)
  /** The effect happened; in a transaction of the application's, if that is committed. */
  | ({ readonly type: 'receipt.written'; readonly entity: string; readonly effect: string } & AttemptFacts)
  /** The effect was there already: it was not repeated. */
  | ({ readonly type: 'receipt.duplicate'; readonly entity: string; readonly effect: string } & AttemptFacts)
  /** The run was no longer ours: neither receipt nor effect was written. */
  | ({ readonly type: 'receipt.refused'; readonly entity: string; readonly effect: string } & AttemptFacts)
  /**
   * A call was made that nobody knows the end of (`error`: what it threw, if it did), and waits for a person. `attempt`
   * had made it.
   */
  | ({
      readonly type: 'effect.inDoubt';
      readonly entity: string;
      readonly effect: string;
      readonly error: StoredError | null;
    } & AttemptFacts)
  /** A call of an earlier attempt may have got through, and is made again under the same key. */
  | ({ readonly type: 'effect.resent'; readonly entity: string; readonly effect: string } & AttemptFacts)
  /** A batch of effects: `applied` happened now, `skipped` had happened already. */
  | ({
      readonly type: 'receipts.written';
      readonly effect: string;
      readonly applied: number;
      readonly skipped: number;
      readonly failed: number;
    } & AttemptFacts)
  /** In development, once for each effect of a job: it ended without a statement through its manager. */
  | ({ readonly type: 'receipt.bypassed'; readonly entity: string; readonly effect: string } & AttemptFacts);
