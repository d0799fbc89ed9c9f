import { Injectable } from '@nestjs/common';
import type { OwnedRun } from '../domain/runs/run.js';
import { GroupCommit } from '../runtime/group-commit.js';
import { JobRunStore, type Ending, type WrittenEnd } from '../store/runs/job-run.store.js';
import { RunEndsStore, type EndAnswer, type RunEnd } from '../store/runs/run-ends.store.js';

/** Each row of a group is locked until all of it is written. */
const MOST_AT_ONCE = 200;

/** An end waits no longer for others whose connection gives no answer, in milliseconds. */
const SLOW_AFTER_MS = 500;

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

  /** The same without company: nothing that is wrong with others is in its way. */
  writeAlone(run: OwnedRun, ending: Ending | null): Promise<WrittenEnd | null> {
    return ending ? this.store.end(run, ending) : this.store.complete(run);
  }

  private async together(ends: readonly RunEnd[]): Promise<readonly (EndAnswer | Refused)[]> {
    if (ends.length > 1) return this.ends.endAll(ends);
    const [{ run, ending }] = ends as [RunEnd];
    const end = await this.writeAlone(run, ending);
    return [end ? { kind: 'written', end } : { kind: 'refused' }];
  }
}
