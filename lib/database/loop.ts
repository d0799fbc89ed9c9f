import { LONGEST_TIMER_MS } from '../options/duration.js';
import { monotonicNow } from './clock.js';
import { LONGEST_RETRY_MS, retryDelay } from './retry.js';
import { AsyncLocalStorage } from 'node:async_hooks';

/** One pass of a periodic duty; returns how many milliseconds to sleep before the next. */
type Pass = () => Promise<number>;

/** How a loop sleeps, and whom it tells. */
export interface LoopOptions {
  /** Longest sleep, in milliseconds: a pass is looked at again at least this often, whatever it asked for. */
  readonly maxSleepMs: number;
  /**
   * Longest wait after failed passes, in milliseconds, for what may wait. @default `LONGEST_RETRY_MS`, at most
   * maxSleepMs
   */
  readonly maxRetryMs?: number;
  /** Told about every failed pass, with the number of failures in a row. */
  readonly onFailure: (error: unknown, failures: number) => void;
  /** Told when a pass succeeds after failures. */
  readonly onRecovery?: () => void;
}

/**
 * Runs a pass, sleeps, and runs it again until it is stopped. A pass that fails is tried again, after 0.1 s at first
 * and the longest wait later; nothing but `stop()` ends a loop. Its timers never keep a process alive.
 */
export class Loop {
  private timer: NodeJS.Timeout | null = null;
  private running: Promise<void> | null = null;
  private wakeAt = Infinity;
  private again = false;
  private failures = 0;
  private started = false;

  constructor(
    private readonly pass: Pass,
    private readonly options: LoopOptions,
  ) {}

  /** @param firstInMs when the first pass is due, in milliseconds, unless something wakes the loop before */
  start(firstInMs = 0): void {
    this.started = true;
    this.wakeWithin(firstInMs);
  }

  /** Runs a pass now, or once more when the one under way has ended. */
  wake(): void {
    this.wakeWithin(0);
  }

  /** Runs a pass at the latest this many milliseconds from now. */
  wakeWithin(millis: number): void {
    if (!this.started) return;
    if (this.running) {
      if (millis === 0) this.again = true;
      else this.wakeAt = Math.min(this.wakeAt, monotonicNow() + millis);
      return;
    }
    this.arm(Math.min(monotonicNow() + millis, this.timer ? this.wakeAt : Infinity));
  }

  /** Starts no further pass and waits for the one under way. */
  async stop(): Promise<void> {
    this.started = false;
    this.disarm();
    await this.running;
  }

  private arm(at: number): void {
    this.disarm();
    this.wakeAt = at;
    const sleep = Math.max(0, Math.min(at - monotonicNow(), this.options.maxSleepMs, LONGEST_TIMER_MS));
    this.timer = inCleanContext(() => setTimeout(() => this.run(), Math.ceil(sleep)));
    this.timer.unref();
  }

  private disarm(): void {
    if (this.timer) clearTimeout(this.timer);
    this.timer = null;
    this.wakeAt = Infinity;
  }

  private run(): void {
    this.disarm();
    this.running = this.runPass().then((sleep) => {
      this.running = null;
      if (!this.started) return;
      const next = this.again ? 0 : sleep;
      this.again = false;
      this.arm(Math.min(monotonicNow() + next, this.wakeAt));
    });
  }

  private async runPass(): Promise<number> {
    try {
      const sleep = await this.pass();
      if (this.failures > 0) tell(() => this.options.onRecovery?.());
      this.failures = 0;
      return Math.max(0, sleep);
    } catch (error) {
      this.failures += 1;
      tell(() => this.options.onFailure(error, this.failures));
      return retryDelay(this.failures, this.options.maxRetryMs ?? Math.min(this.options.maxSleepMs, LONGEST_RETRY_MS));
    }
  }
}

/** Whoever is told is not to end the loop by what it throws. */
function tell(listen: () => void): void {
  try {
    listen();
  } catch {
    // There is nobody else to tell.
  }
}

/**
 * Does something in the async context in which this module was loaded, that of nobody's request. What outlives its
 * caller begins here: a timer, a loop, a connection or a handler that was started inside a request would keep that
 * request's tenant, user or trace for ever, and show it to all that follows.
 */
export const inCleanContext: <Result>(work: () => Result) => Result = AsyncLocalStorage.snapshot();
