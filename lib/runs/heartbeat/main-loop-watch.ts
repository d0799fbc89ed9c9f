import { inCleanContext, Loop } from '../../database/loop.js';
import { monotonicNow } from '../../database/clock.js';

/** Between two beats, in milliseconds, at most. */
const LONGEST_BEAT_MS = 1_000;

/** What a resting pulse shows: nobody is to wait for a beat. */
const AT_REST = 0n;

/**
 * The main thread's event loop, as it shows its life to another thread: the time of its last turn, in shared memory.
 */
export class Pulse {
  readonly memory = new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT);
  private readonly lastBeat = new BigInt64Array(this.memory);
  private timer: NodeJS.Timeout | null = null;

  /** @param noticedAfterMs how long a pause is noticed after: several beats fit in */
  start(noticedAfterMs: number): void {
    this.stop();
    this.beat();
    this.timer = inCleanContext(() =>
      setInterval(() => this.beat(), Math.min(LONGEST_BEAT_MS, Math.ceil(noticedAfterMs / 4))),
    );
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

/** Who hears that the main thread's event loop stands still. */
export interface MainLoopListener {
  /** Once for each pause, in milliseconds so far. */
  readonly blocked: (forMs: number) => void;
  /** It moves again, after so many milliseconds. */
  readonly unblocked: (forMs: number) => void;
}

/**
 * Watches the main thread's pulse from another thread. A process that was frozen as a whole is not blocked: while this
 * thread did not run, either, nobody missed a beat.
 */
export class MainLoopWatch {
  private readonly loop: Loop;
  private readonly everyMs: number;
  private lookedAt = monotonicNow();
  /** No pause is counted from before. */
  private awakeSince = monotonicNow();
  private blockedSince: number | null = null;

  constructor(
    private readonly pulse: SharedArrayBuffer,
    private readonly blockedAfterMs: number,
    private readonly listener: MainLoopListener,
  ) {
    this.everyMs = Math.ceil(blockedAfterMs / 4);
    this.loop = new Loop(async () => this.look(), { maxSleepMs: this.everyMs, onFailure: () => {} });
  }

  start(): void {
    this.loop.start();
  }

  async stop(): Promise<void> {
    await this.loop.stop();
  }

  /** One look. @param now by the monotonic clock, milliseconds @returns milliseconds to the next */
  look(now = monotonicNow()): number {
    if (now - this.lookedAt > 2 * this.everyMs) this.awakeSince = now;
    this.lookedAt = now;
    const beat = lastBeat(this.pulse);
    if (this.blockedSince !== null && (beat === null || beat > this.blockedSince)) this.end(beat ?? now);
    else if (this.blockedSince === null && beat !== null) this.judge(beat, now);
    return this.everyMs;
  }

  private judge(beat: number, now: number): void {
    if (now - Math.max(beat, this.awakeSince) < this.blockedAfterMs) return;
    this.blockedSince = beat;
    this.listener.blocked(now - beat);
  }

  private end(beat: number): void {
    const forMs = beat - this.blockedSince!;
    this.blockedSince = null;
    this.listener.unblocked(forMs);
  }
}
