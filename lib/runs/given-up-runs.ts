import { Inject, Injectable } from '@nestjs/common';
import { INSTANCE_ID } from '../options/tokens.js';
import { LONGEST_TIMER_MS } from '../options/duration.js';
import { GONE_FOR_MS, GRACE_MS } from './fast-failover.js';
import { runId } from '../options/run.js';
import type { AttemptFacts, SchedulerEvent } from '../observe/scheduler-event.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { Duty } from '../observe/duty.js';
import { ReapingRepository } from './reaping.repository.js';
import { RefusedData } from './refused-data.js';

/** A handler that was aborted gets the same time to hear of it as before anybody else takes over. */
const AFTER_MS = GONE_FOR_MS - GRACE_MS;

const AGAIN_MS = 1_000;

/** Answers without success: somebody holds the row, or has ended the run, or the database refuses it. */
const MOST_TRIES = 10;

/**
 * Runs whose handlers were aborted because this instance was cut off. When the database answers again, the leases of
 * those that nobody has taken over are ended: the others need not wait for them.
 */
@Injectable()
export class GivenUpRuns extends Duty {
  /** How often each has been tried. */
  private readonly tries = new Map<AttemptFacts, number>();
  private readonly refused: RefusedData;

  constructor(
    private readonly store: ReapingRepository,
    events: SchedulerEvents,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
  ) {
    super(events, { name: null, maxSleepMs: LONGEST_TIMER_MS, maxRetryMs: AGAIN_MS });
    this.refused = new RefusedData(events);
  }

  protected pass(): Promise<number> {
    return this.giveUp();
  }

  override start(): void {
    super.start(LONGEST_TIMER_MS);
  }

  override hear(event: SchedulerEvent): void {
    if (event.type === 'lease.lost' && event.cause === 'cut off') this.add(event);
  }

  /** Its handler has just been told to stop. */
  add(run: AttemptFacts): void {
    this.tries.set(run, 0);
    this.wakeWithin(AFTER_MS);
  }

  /** @returns milliseconds to the next pass */
  async giveUp(): Promise<number> {
    const runs = [...this.tries.keys()];
    if (runs.length === 0) return LONGEST_TIMER_MS;
    const ended = await this.refused.takeApart('give up', runs, runId, (part) =>
      this.store.giveUp(part, this.instanceId),
    );
    const isEnded = (run: AttemptFacts) =>
      ended.some(({ jobName, fireTime }) => jobName === run.jobName && fireTime.getTime() === run.fireTime.getTime());
    for (const run of runs) {
      const tries = this.tries.get(run)! + 1;
      if (isEnded(run) || tries === MOST_TRIES) this.tries.delete(run);
      else this.tries.set(run, tries);
    }
    return this.tries.size > 0 ? AGAIN_MS : LONGEST_TIMER_MS;
  }
}
