import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { WakeUps } from '../observe/wake-ups.js';
import { InFlightRuns } from '../runs/in-flight-runs.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';

/** An instance with nothing in hand looks in at each of so many polls. */
const QUIET_POLLS = 3;

/** Where nothing is open and nothing falls due, runs are looked for at each of so many polls. */
const IDLE_POLLS = 6;

/**
 * How often an instance asks the database what has changed. While it is sure to be woken up it may take its time;
 * behind a pooler, or while its connection is being made again, it keeps to `pollInterval`.
 */
@Injectable()
export class PollPace {
  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: Pick<ResolvedSchedulerOptions, 'pollIntervalMs'>,
    private readonly wakeUps: WakeUps,
    private readonly runs: InFlightRuns,
  ) {}

  /** Milliseconds between two looks, as long as anything is open. */
  get usualMs(): number {
    return this.options.pollIntervalMs;
  }

  /** Milliseconds to the next look for what has changed; a handler under way may have to be told of it. */
  get changesMs(): number {
    return this.wakeUps.areHeard && this.runs.size === 0 ? QUIET_POLLS * this.usualMs : this.usualMs;
  }

  /** Milliseconds to the next look for runs, when none is open. */
  get idleMs(): number {
    return this.wakeUps.areHeard ? IDLE_POLLS * this.usualMs : this.usualMs;
  }

  /** The longest of all, in milliseconds. */
  get longestMs(): number {
    return IDLE_POLLS * this.usualMs;
  }
}
