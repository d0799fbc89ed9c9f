import { DEFAULT_EFFECT, idempotencyKey } from './idempotency-key.js';
import type { RunTrigger } from './run.js';

/** What a `CronRun` is made of. */
export interface CronRunFacts {
  readonly jobName: string;
  readonly fireTime: Date;
  /** Computed when it is asked for. */
  readonly previousFireTime: () => Date | null;
  readonly attempt: number;
  readonly trigger: RunTrigger;
  readonly data: unknown;
  readonly signal: AbortSignal;
  /** Asked at each look: the heartbeat moves it. */
  readonly leaseUntil: () => Date;
}

/** One attempt at one occurrence, as its handler sees it. */
export class CronRun {
  readonly jobName: string;
  /** The instant the occurrence was due: the same for every attempt, wherever it runs. */
  readonly fireTime: Date;
  /** 1, 2, …; for the handler of a page, the page's. */
  readonly attempt: number;
  /**
   * `schedule`: at its time. `catch-up`: later, after a gap. `backfill`: because an operator asked for past occurrences.
   * `manual`: because somebody asked for a run; its fire time is when.
   */
  readonly trigger: RunTrigger;
  /** What a job made at run time, or this run when somebody asked for it, was given for the handler; undefined otherwise. */
  readonly data: unknown;
  /**
   * Aborts when the run is no longer this process' (`signal.reason` is a `LeaseLostError`), when it has taken the time its job
   * allows (`TimeoutError`), when somebody cancelled it (`CancelledError`), and when the application stops and the time for
   * running handlers is over (`ShutdownError`). Nothing written through receipts is accepted after a lost lease.
   */
  readonly signal: AbortSignal;
  readonly #facts: CronRunFacts;

  constructor(facts: CronRunFacts) {
    this.jobName = facts.jobName;
    this.fireTime = facts.fireTime;
    this.attempt = facts.attempt;
    this.trigger = facts.trigger;
    this.data = facts.data;
    this.signal = facts.signal;
    this.#facts = facts;
  }

  /** Until when the run is safe without another heartbeat, by the database's clock. A page has no lease: the last instant there is. */
  get leaseUntil(): Date {
    return this.#facts.leaseUntil();
  }

  /** The fire time before this one, whether or not it ran; null when there is none. */
  get previousFireTime(): Date | null {
    return this.#facts.previousFireTime();
  }

  /**
   * A key for one effect on one entity in this occurrence, for services that drop repeated requests (Stripe's
   * `Idempotency-Key`, a mail's `Message-ID`): the same on every attempt and every replica.
   */
  idempotencyKey(entity: string | number, effect: string = DEFAULT_EFFECT): string {
    return idempotencyKey(this, String(entity), effect);
  }
}
