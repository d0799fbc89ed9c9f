import { inCleanContext } from '../../runtime/clean-context.js';
import { monotonicNow } from '../../runtime/monotonic.js';

/** Between two beats, in milliseconds, at most. */
const LONGEST_BEAT_MS = 1_000;

/** What a resting pulse shows: nobody is to wait for a beat. */
const AT_REST = 0n;

/** The main thread's event loop, as it shows its life to another thread: the time of its last turn, in shared memory. */
export class Pulse {
  readonly memory = new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT);
  private readonly lastBeat = new BigInt64Array(this.memory);
  private timer: NodeJS.Timeout | null = null;

  /** @param noticedAfterMs how long a pause is noticed after: several beats fit in */
  start(noticedAfterMs: number): void {
    this.stop();
    this.beat();
    this.timer = inCleanContext(() => setInterval(() => this.beat(), Math.min(LONGEST_BEAT_MS, Math.ceil(noticedAfterMs / 4))));
    this.timer.unref();
  }

  /** From here on it rests, and nobody misses a beat. */
  stop(): void {
    if (this.timer) clearInterval(this.timer);
    this.timer = null;
    Atomics.store(this.lastBeat, 0, AT_REST);
  }

  private beat(): void {
    Atomics.store(this.lastBeat, 0, BigInt(Math.ceil(monotonicNow())));
  }
}

/** @returns when the loop last turned, by the monotonic clock in milliseconds; null when its pulse rests */
export function lastBeat(memory: SharedArrayBuffer): number | null {
  const at = Atomics.load(new BigInt64Array(memory), 0);
  return at === AT_REST ? null : Number(at);
}
