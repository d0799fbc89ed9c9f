import { mixed } from '../../dist/lib/jobs/job-instance.store.js';
import { DueQueue } from '../../dist/lib/jobs/due-queue.js';

const START = Date.parse('2026-03-01T00:00:00Z');

interface Timer {
  work: () => void;
  ref(): Timer;
  unref(): Timer;
  hasRef(): boolean;
}

/**
 * The clocks and timers of this process, moved by hand: an hour passes as fast as what happens in it is computed. What
 * is awaited between two timers takes no time.
 */
export class SimulatedTime {
  /** Milliseconds since the simulation began. */
  now = 0;
  private readonly timers = new DueQueue<Timer>();
  private readonly nextTurn = promisedTurn(setImmediate);

  /** @param lateness milliseconds that a timer is late; asked for each */
  constructor(private readonly lateness: () => number) {}

  get date(): Date {
    return new Date(START + this.now);
  }

  /** From here on all code of this process lives in it. */
  install(): void {
    const { hrtime } = process;
    // Node.js rounds a delay down to whole milliseconds, and fires when they are over.
    const setTimeout = (work: (...args: unknown[]) => void, millis = 0, ...args: unknown[]) =>
      this.after(Math.max(1, Math.floor(millis)) + this.lateness(), () => work(...args));
    const clearTimeout = (timer?: Timer | null) => timer && this.clear(timer);
    const setImmediate = (work: () => void) => this.after(0, work);
    Object.assign(globalThis, { setTimeout, clearTimeout, setImmediate });
    hrtime.bigint = () => BigInt(Math.round(this.now * 1e6));
    Date.now = () => START + this.now;
  }

  /** Does the work when so much time has passed, to the point. */
  after(millis: number, work: () => void): Timer {
    const timer: Timer = { work, ref: () => timer, unref: () => timer, hasRef: () => false };
    this.timers.set(timer, this.now + millis);
    return timer;
  }

  /** Resolves when so much time has passed. */
  pass(millis: number): Promise<void> {
    return new Promise((resolve) => void this.after(millis, resolve));
  }

  /** Goes from timer to timer until then. */
  async runUntil(end: number): Promise<void> {
    for (let at = this.next; at <= end; at = this.next) {
      this.now = at;
      for (const timer of this.timers.due(at)) {
        this.timers.delete(timer);
        timer.work();
      }
      await this.nextTurn();
    }
    this.now = end;
  }

  private clear(timer: Timer): void {
    this.timers.delete(timer);
    // It may be one of those whose time has come just now.
    timer.work = () => {};
  }

  private get next(): number {
    return this.timers.nextAfter(-Infinity);
  }
}

/** All that was promised has been followed by then. */
function promisedTurn(realSetImmediate: typeof setImmediate): () => Promise<void> {
  return () => new Promise((resolve) => void realSetImmediate(resolve));
}

/** Numbers from 0 to 1 that look like chance, the same from run to run. */
export function chance(seed: number): () => number {
  let state = seed;
  return () => mixed((state += 0x9e3779b9)) / 2 ** 32;
}
