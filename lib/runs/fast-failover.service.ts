import { Inject, Injectable } from '@nestjs/common';
import { DatabaseTime, monotonicNow } from '../database/clock.js';
import { JobCursors } from '../jobs/job-cursors.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import { Duty } from '../observe/duty.js';
import type { AttemptFacts } from '../observe/run-event.js';
import type { SchedulerEvent } from '../observe/scheduler-event.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { LONGEST_TIMER_MS } from '../options/duration.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { runId } from '../options/run.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../options/tokens.js';
import { GRACE_MS } from './liveness-proof.js';
import { ReaperService } from './reaper.service.js';
import { type GoneRun, ReapingRepository } from './reaping.repository.js';
import { RefusedData } from './refused-data.js';

/** See `GRACE_MS`; the difference is for the handler to hear of it. */
export const GONE_FOR_MS = 1_400;

/** Between two looks while runs of others are under way. */
export const LOOK_EVERY_MS = 250;

/** Whether something has come due is looked at here, without the database, at least this often. */
const LONGEST_SLEEP_MS = 1_000;

const MAX_RETRY_MS = 1_000;

/** An occurrence that is due may be claimed a little later: whoever has no room leaves it to others. */
const ATTENTIVE_FOR_MS = 1_000;

/**
 * Takes over from instances whose liveness lock is gone, before their leases end. Looks only while runs of others are under
 * way, or may just have begun: what has come due, and what the reaper has seen, says so.
 */
@Injectable()
export class FastFailoverService extends Duty {
  private readonly refused: RefusedData;
  private since: GoneSince = new Map();
  /** By the monotonic clock. */
  private attentiveUntil = -Infinity;
  /** By the database's clock, as all fire times. */
  private nextDueAt = Infinity;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
    private readonly store: ReapingRepository,
    private readonly reaper: ReaperService,
    private readonly known: KnownJobs,
    private readonly cursors: JobCursors,
    private readonly time: DatabaseTime,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'fast failover', maxSleepMs: LONGEST_SLEEP_MS, maxRetryMs: MAX_RETRY_MS });
    this.refused = new RefusedData(events);
  }

  protected pass(): Promise<number> {
    return this.look();
  }

  override start(): void {
    if (!this.options.fastFailover) return;
    this.reaper.whenRunsAreSeen(() => this.attend());
    super.start();
  }

  /** Runs of others may be under way. */
  attend(): void {
    this.attentiveUntil = monotonicNow() + ATTENTIVE_FOR_MS;
    this.wakeWithin(LOOK_EVERY_MS);
  }

  /** One look, while there is something to see. @returns milliseconds to the next */
  async look(): Promise<number> {
    if (this.nextDueAt <= this.time.now()) this.attentiveUntil = monotonicNow() + ATTENTIVE_FOR_MS;
    this.nextDueAt = this.cursors.nextDueAt;
    const untilDue = Math.max(0, this.nextDueAt - this.time.now()) + LOOK_EVERY_MS;
    if (this.attentiveUntil < monotonicNow()) return untilDue;
    const others = await this.store.ownersGone(this.instanceId);
    // Whoever does not know a job leaves its runs alone.
    const gone = others.gone.filter(({ jobName }) => this.known.get(jobName));
    const now = monotonicNow();
    if (others.run) this.attentiveUntil = now + ATTENTIVE_FOR_MS;
    this.since = stillGone(this.since, gone, now);
    const lost = goneForGood(gone, this.since, now);
    if (lost.length > 0) await this.takeOver(lost);
    return Math.min(LOOK_EVERY_MS, nextGone(gone, this.since, now) - now);
  }

  private async takeOver(lost: readonly GoneRun[]): Promise<void> {
    const taken = await this.refused.takeApart('take over', lost, runId, (part) => this.store.takeOver(part));
    if (taken.length === 0) return;
    this.reaper.wake();
    const goneMs = monotonicNow() - firstGone(lost, this.since);
    for (const instanceId of new Set(taken.map((run) => run.claimedBy))) {
      const runs = taken.filter((run) => run.claimedBy === instanceId).length;
      this.events.emit({ type: 'instance.gone', instanceId, runs, goneMs });
    }
  }
}

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

/** Since when runs have been seen without their owner, by what names them, milliseconds. */
export type GoneSince = ReadonlyMap<string, number>;

/** @param at when the answer of this look had come: the database had looked before */
export function stillGone(before: GoneSince, found: readonly GoneRun[], at: number): GoneSince {
  return new Map(found.map((run) => [nameOf(run), before.get(nameOf(run)) ?? at]));
}

/** Those that may be taken over now. */
export function goneForGood(found: readonly GoneRun[], since: GoneSince, now: number): GoneRun[] {
  return found.filter((run) => dueAt(run, since) <= now);
}

/** When the first of those that may not be taken over yet may be; Infinity when there is none. */
export function nextGone(found: readonly GoneRun[], since: GoneSince, now: number): number {
  return Math.min(Infinity, ...found.map((run) => dueAt(run, since)).filter((due) => due > now));
}

/** When the first of them was seen without its owner. */
export function firstGone(runs: readonly GoneRun[], since: GoneSince): number {
  return Math.min(...runs.map((run) => dueAt(run, since))) - GONE_FOR_MS;
}

function dueAt(run: GoneRun, since: GoneSince): number {
  return (since.get(nameOf(run)) ?? Infinity) + GONE_FOR_MS;
}

function nameOf({ jobName, fireTime, attempt, lifeline }: GoneRun): string {
  return JSON.stringify([jobName, fireTime.getTime(), attempt, lifeline]);
}
