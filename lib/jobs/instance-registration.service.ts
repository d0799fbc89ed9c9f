import { Inject, Injectable } from '@nestjs/common';
import { KnownJobs } from './known-jobs.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../options/tokens.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { monotonicNow } from '../database/clock.js';
import { JobInstanceStore, type Presence } from './job-instance.store.js';

/** An instance that has not looked in for so many polls is taken for gone. */
const ALIVE_POLLS = 6;

const LEAST_ALIVE_MS = 2_000;

/** What this instance says about itself: that it is there, and what its code declares. */
@Injectable()
export class InstanceRegistration {
  /** Monotonic time. */
  private takesOverFrom = 0;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
    private readonly known: KnownJobs,
    private readonly instances: JobInstanceStore,
  ) {}

  /** False: the instance claims nothing, and others need not know of it. */
  get takesPart(): boolean {
    return this.options.enabled;
  }

  get facts(): Presence {
    const { jobs, handlers } = this.known.declared;
    return {
      instanceId: this.instanceId,
      aliveMs: Math.max(LEAST_ALIVE_MS, ALIVE_POLLS * this.options.pollIntervalMs),
      jobs: jobs.map(({ definition }) => definition),
      handlers: [...handlers.keys()],
    };
  }

  /** False for a while after it, or all, may have been away. */
  get mayTakeOver(): boolean {
    return monotonicNow() >= this.takesOverFrom;
  }

  /** It was taken for gone. */
  async announceAgain(): Promise<void> {
    await this.instances.announce(this.facts);
    this.giveOthersTime();
  }

  /**
   * Perhaps all were taken for gone, because the database was away: those that are not back yet are given the time to
   * be, or the first one would take over from live ones.
   */
  giveOthersTime(): void {
    this.takesOverFrom = monotonicNow() + this.facts.aliveMs;
  }

  /** The instance takes no more part: others need not wait until it is taken for gone. */
  async leave(): Promise<void> {
    if (this.takesPart) await this.instances.leave(this.instanceId);
  }
}
