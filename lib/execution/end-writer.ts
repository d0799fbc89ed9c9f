import { Injectable } from '@nestjs/common';
import type { OwnedRun } from '../domain/runs/run.js';
import { plainError, plainText } from '../domain/runs/stored-error.js';
import { GroupCommit } from '../runtime/group-commit.js';
import { isRefusedData } from '../store/connection/sql-state.js';
import { JobRunStore, type Ending, type WrittenEnd } from '../store/runs/job-run.store.js';
import { RunEndsStore, type EndAnswer, type RunEnd } from '../store/runs/run-ends.store.js';

/** Each row of a group is locked until all of it is written. */
const MOST_AT_ONCE = 200;

/** An end waits no longer for others whose connection gives no answer, in milliseconds. */
const SLOW_AFTER_MS = 500;

/** Of a reason that was refused as it was, in characters. */
const LONGEST_REASON = 500;

/** A backoff that was refused as it was, in milliseconds: a hundred years. */
const LONGEST_RETRY_MS = 100 * 365 * 86_400_000;

/** The run is no longer ours. */
interface Refused {
  readonly kind: 'refused';
}

/** Writes the ends of attempts: one by itself, and those that come while it is being written together. */
@Injectable()
export class EndWriter {
  private readonly group = new GroupCommit<RunEnd, EndAnswer | Refused>((ends) => this.together(ends), { most: MOST_AT_ONCE, slowAfterMs: SLOW_AFTER_MS });

  constructor(
    private readonly store: JobRunStore,
    private readonly ends: RunEndsStore,
  ) {}

  /**
   * @param ending null when the attempt completed
   * @returns null when the run is no longer ours
   * @throws what the statement failed with, which may be another run's fault
   */
  async write(run: OwnedRun, ending: Ending | null): Promise<WrittenEnd | null> {
    const answer = await this.group.add({ run, ending });
    if (answer.kind === 'passed over') return this.writeAlone(run, ending);
    return answer.kind === 'written' ? answer.end : null;
  }

  /** The same without company: nothing that is wrong with others is in its way. What the database does not accept is written in a form that it does. */
  async writeAlone(run: OwnedRun, ending: Ending | null): Promise<WrittenEnd | null> {
    if (!ending) return this.store.complete(run);
    return this.store.end(run, ending).catch((error: unknown) => {
      if (!isRefusedData(error)) throw error;
      return this.store.end(run, plainEnding(ending));
    });
  }

  /** A group that is refused because of one is written one by one. */
  private async together(ends: readonly RunEnd[]): Promise<readonly (EndAnswer | Refused)[]> {
    if (ends.length === 1) {
      const end = await this.writeAlone(ends[0]!.run, ends[0]!.ending);
      return [end ? { kind: 'written', end } : { kind: 'refused' }];
    }
    return this.ends.endAll(ends).catch((error: unknown) => {
      if (!isRefusedData(error)) throw error;
      return ends.map(() => PASSED_OVER);
    });
  }
}

/** To be written by itself. */
const PASSED_OVER: EndAnswer = { kind: 'passed over' };

function plainEnding({ reason, error, retryInMs, ...ending }: Ending): Ending {
  return {
    ...ending,
    reason: reason && plainText(reason, LONGEST_REASON),
    error: error && plainError(error),
    retryInMs: retryInMs && Math.min(retryInMs, LONGEST_RETRY_MS),
  };
}
