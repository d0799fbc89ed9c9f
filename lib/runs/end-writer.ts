import { Injectable } from '@nestjs/common';
import { inCleanContext } from '../database/loop.js';
import { isRefusedData } from '../database/sql-state.js';
import type { OwnedRun } from '../options/run.js';
import { type EndAnswer, type EndedAttempt, JobRunRepository, type WrittenEnd } from './job-run.repository.js';
import { plainEnd, type RunEnd } from './outcome.js';

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
  private readonly group = new GroupCommit<EndedAttempt, EndAnswer | Refused>((ends) => this.together(ends), {
    most: MOST_AT_ONCE,
    slowAfterMs: SLOW_AFTER_MS,
  });

  constructor(private readonly store: JobRunRepository) {}

  /**
   * @returns null when the run is no longer ours
   * @throws what the statement failed with, which may be another run's fault
   */
  async write(run: OwnedRun, end: RunEnd): Promise<WrittenEnd | null> {
    const answer = await this.group.add({ run, end });
    if (answer.kind === 'passed over') return this.writeAlone(run, end);
    return answer.kind === 'written' ? answer.end : null;
  }

  /**
   * The same without company: nothing that is wrong with others is in its way. What the database does not accept is
   * written in a form that it does.
   */
  async writeAlone(run: OwnedRun, end: RunEnd): Promise<WrittenEnd | null> {
    return this.store.end(run, end).catch((error: unknown) => {
      if (end.status === 'done' || !isRefusedData(error)) throw error;
      return this.store.end(run, plainEnd(end));
    });
  }

  /** A group that is refused because of one is written one by one. */
  private async together(ends: readonly EndedAttempt[]): Promise<readonly (EndAnswer | Refused)[]> {
    if (ends.length === 1) {
      const written = await this.writeAlone(ends[0]!.run, ends[0]!.end);
      return [written ? { kind: 'written', end: written } : { kind: 'refused' }];
    }
    return this.store.endAll(ends).catch((error: unknown) => {
      if (!isRefusedData(error)) throw error;
      return ends.map(() => PASSED_OVER);
    });
  }
}

/** To be written by itself. */
const PASSED_OVER: EndAnswer = { kind: 'passed over' };

/** How a group commit behaves. */
export interface GroupCommitOptions {
  /** Items in one group at most. */
  readonly most: number;
  /** After so many milliseconds without an answer the next group goes without waiting for it. */
  readonly slowAfterMs: number;
}

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Writes together what comes while something is being written. Nothing waits for a timer: the first item goes at the
 * end of the event loop's turn, with what the turn brought, and what comes meanwhile goes as one group when the answer
 * is there.
 */
export class GroupCommit<Item, Answer> {
  private waiting: Waiting<Item, Answer>[] = [];
  private scheduled = false;
  /** The group that is being written, and waited for. */
  private underWay: object | null = null;

  /**
   * @param commit writes a group; its answers are in the order of the items. What it throws is thrown at all of them
   */
  constructor(
    private readonly commit: (items: readonly Item[]) => Promise<readonly Answer[]>,
    private readonly options: GroupCommitOptions,
  ) {}

  add(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ item, resolve, reject });
      this.schedule();
    });
  }

  private schedule(): void {
    if (this.scheduled || this.underWay || this.waiting.length === 0) return;
    this.scheduled = true;
    const write = () => {
      this.scheduled = false;
      void this.writeNext();
    };
    // A group is no single caller's.
    inCleanContext(() => setImmediate(write));
  }

  private async writeNext(): Promise<void> {
    const group = this.waiting.splice(0, this.options.most);
    const token = (this.underWay = {});
    const goOn = () => {
      if (this.underWay !== token) return;
      this.underWay = null;
      this.schedule();
    };
    const impatience = setTimeout(goOn, this.options.slowAfterMs);
    impatience.unref();
    try {
      const answers = await this.commit(group.map(({ item }) => item));
      group.forEach(({ resolve }, index) => resolve(answers[index]!));
    } catch (error) {
      for (const { reject } of group) reject(error);
    } finally {
      clearTimeout(impatience);
      goOn();
    }
  }
}
