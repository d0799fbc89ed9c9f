import type { RunKey } from '../options/run.js';
import { describeError } from '../errors/stored-error.js';
import type { RefusedStep } from '../observe/scheduler-event.js';
import type { SchedulerEvents } from '../observe/scheduler-events.js';
import { monotonicNow } from '../database/clock.js';
import { isRefusedData } from '../database/sql-state.js';

/** What was refused is left alone for so long, in milliseconds: somebody has to mend it. */
const REST_MS = 10_000;

/** What is refused no more, or nobody asks about any more, is forgotten after so long. */
const FORGOTTEN_MS = 3_600_000;

/** A step of an occurrence that was refused. */
interface Refused {
  readonly step: RefusedStep;
  readonly run: RunKey;
  /** By the monotonic clock, when it is tried again. */
  readonly restUntil: number;
}

/**
 * Takes a batch apart that the database refuses because of its data. The one that is at fault is told about, once until
 * it was accepted again, and is tried by itself from then on, now and then. The others go on.
 */
export class RefusedData {
  private readonly refused = new Map<string, Refused>();

  constructor(private readonly events: SchedulerEvents) {}

  /**
   * @param keyOf names what is at fault when the item is refused by itself: an occurrence, or its whole job
   * @param ask is given a part of the items, and fails for all of them or for none
   * @throws what else it fails with, unless a part was answered before: what that has won must not be lost
   */
  async takeApart<Item extends RunKey, Answer>(
    step: RefusedStep,
    items: readonly Item[],
    keyOf: (item: Item) => string,
    ask: (items: readonly Item[]) => Promise<readonly Answer[]>,
  ): Promise<Answer[]> {
    const now = monotonicNow();
    const restUntil = (item: Item) => this.refused.get(`${step} ${keyOf(item)}`)?.restUntil;
    const again = items.filter((item) => (restUntil(item) ?? Infinity) <= now);
    const parts = [items.filter((item) => restUntil(item) === undefined), ...again.map((item) => [item])].filter(
      ({ length }) => length > 0,
    );
    const answers: Answer[] = [];
    let answered = false;
    for (let part = parts.shift(); part; part = parts.shift()) {
      try {
        answers.push(...(await ask(part)));
        answered = true;
        for (const item of part) this.accepted(step, keyOf(item));
      } catch (error) {
        if (!isRefusedData(error)) {
          if (answered) return answers;
          throw error;
        }
        const half = Math.ceil(part.length / 2);
        if (part.length === 1) this.tell(step, keyOf(part[0]!), part[0]!, error);
        else parts.unshift(part.slice(0, half), part.slice(half));
      }
    }
    return answers;
  }

  /** @param key names what is at fault */
  tell(step: RefusedStep, key: string, { jobName, fireTime }: RunKey, error: unknown): void {
    const now = monotonicNow();
    for (const [name, { restUntil }] of this.refused) if (restUntil + FORGOTTEN_MS < now) this.refused.delete(name);
    const name = `${step} ${key}`;
    const isKnown = this.refused.has(name);
    this.refused.set(name, { step, run: { jobName, fireTime }, restUntil: now + REST_MS });
    if (!isKnown) this.events.emit({ type: 'data.refused', jobName, fireTime, step, error: describeError(error) });
  }

  accepted(step: RefusedStep, key: string): void {
    if (this.refused.size > 0) this.refused.delete(`${step} ${key}`);
  }

  /** What is left alone for now, and how many milliseconds until the first of it is to be tried again. */
  resting(step: RefusedStep): { readonly runs: readonly RunKey[]; readonly forMs: number } {
    const now = monotonicNow();
    const resting = [...this.refused.values()].filter((one) => one.step === step && one.restUntil > now);
    return { runs: resting.map(({ run }) => run), forMs: Math.min(...resting.map(({ restUntil }) => restUntil - now)) };
  }
}
