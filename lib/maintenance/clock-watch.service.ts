import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { judgeSkew, DatabaseTime } from '../database/clock.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { Duty } from '../observe/duty.js';

/** A look costs a subtraction. */
const LOOK_AT_LEAST_EVERY_MS = 10_000;

/**
 * Tells when this machine's wall clock and the database's disagree, once when it begins and once when it is over.
 * Nothing is decided by it. Asks the database nothing: the reaper reads its clock at every poll.
 */
@Injectable()
export class ClockWatchService extends Duty {
  private readonly everyMs: number;
  private told: number | null = null;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    private readonly time: DatabaseTime,
    events: SchedulerEvents,
  ) {
    const everyMs = Math.min(options.pollIntervalMs, LOOK_AT_LEAST_EVERY_MS);
    super(events, { name: 'clock watch', maxSleepMs: everyMs });
    this.everyMs = everyMs;
  }

  protected pass(): Promise<number> {
    return this.look();
  }

  /** One pass. @returns milliseconds to the next */
  async look(): Promise<number> {
    const { skew } = this.time;
    const { maxClockSkewMs: maxMs } = this.options;
    const verdict = skew && judgeSkew(skew, maxMs, this.told);
    if (!skew || !verdict) return this.everyMs;
    const skewMs = Math.round(skew.skewMs);
    this.told = verdict === 'skewed' ? skewMs : null;
    this.events.emit(verdict === 'skewed' ? { type: 'clock.skewed', skewMs, maxMs } : { type: 'clock.agrees', skewMs });
    return this.everyMs;
  }
}
