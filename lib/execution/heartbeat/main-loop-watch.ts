import { Loop } from '../../runtime/loop.js';
import { monotonicNow } from '../../runtime/monotonic.js';
import { lastBeat } from './pulse.js';

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
