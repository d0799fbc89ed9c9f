import { Inject, Injectable } from '@nestjs/common';
import { Duty } from '../observe/duty.js';
import { isRunEnd, type SchedulerEvent } from '../observe/scheduler-event.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { type Due, DueRuns } from './agenda.js';
import { RunStarter } from './executor.service.js';
import { WaitingRuns } from './waiting-runs.service.js';

/** How soon an occurrence is looked at again that could not be decided: a run is in its way, or there is no room. */
const LOOK_AGAIN_MS = 250;

/** The database may say that it is a little earlier than was thought here. */
const LEAST_SLEEP_MS = 1;

/** Each candidate costs the database a lock while the statement runs, and it has some thousands for everybody. */
const MOST_IN_A_BATCH = 200;

/**
 * As long as there is no room for all that is due, this is how old the order may be in which it is tried: others decide
 * some of it meanwhile, and more comes due.
 */
const KEPT_FOR_MS = 500;

/** One timer to the next due instant of all jobs. Every replica has one; all try, and the database lets one win. */
@Injectable()
export class TickerService extends Duty {
  private undecided = false;
  /** What there was no room for. */
  private kept: Due | null = null;

  constructor(
    @Inject(SCHEDULER_OPTIONS) options: Pick<ResolvedSchedulerOptions, 'pollIntervalMs'>,
    private readonly dueRuns: DueRuns,
    private readonly starter: RunStarter,
    private readonly waiting: WaitingRuns,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'ticker', maxSleepMs: options.pollIntervalMs });
  }

  protected pass(): Promise<number> {
    return this.tick();
  }

  /** A job has another schedule than before. */
  override wake(): void {
    this.kept = null;
    super.wake();
  }

  override hear(event: SchedulerEvent): void {
    if (event.type === 'job.scheduled' || event.type === 'job.rewound') this.wake();
    else if (isRunEnd(event) || event.type === 'run.failed' || event.type === 'run.missed') this.runEnded();
  }

  /** A run of this instance has ended: there is room, or what was in the way is gone. */
  runEnded(): void {
    if (this.undecided) super.wake();
  }

  /** Claims and starts what is due. What was missed is the catch-up's. @returns milliseconds to the next due instant */
  async tick(): Promise<number> {
    const now = this.starter.time.now();
    const due = this.keptAt(now) ?? this.dueRuns.look(now);
    const early = await this.claim(due);
    const isLeft = due.agenda.isLeft;
    this.kept = isLeft && this.starter.room === 0 && !early ? due : null;
    this.undecided = isLeft || due.heldBack;
    const open = this.undecided || due.yieldedUntil < Infinity;
    // Only here are the next fire times computed: what was claimed has started.
    due.nextDueAt ??= this.dueRuns.nextDueAt(open && !early ? now : undefined);
    let next = Math.min(due.nextDueAt, due.yieldedUntil);
    // It has come due while there was no room for it, either.
    if (next <= now && due === this.kept) next = this.dueRuns.nextDueAt(now);
    const untilDue = Math.max(LEAST_SLEEP_MS, next - this.starter.time.now());
    return this.undecided ? Math.min(LOOK_AGAIN_MS, untilDue) : untilDue;
  }

  /** What was kept, unless there is room by now and something else to be tried besides. */
  private keptAt(now: number): Due | null {
    const { kept } = this;
    if (!kept || now >= kept.lookedAt + KEPT_FOR_MS) return null;
    return this.starter.room === 0 || now < Math.min(kept.nextDueAt ?? Infinity, kept.yieldedUntil) ? kept : null;
  }

  /**
   * Claims batch by batch while there is room: what is claimed and held back is kept from others. A job that can't
   * start now gives its place to the next.
   * @returns true when the database calls something not due yet
   */
  private async claim(due: Due): Promise<boolean> {
    if (this.starter.room === 0) return false;
    const { agenda, contested } = due;
    agenda.startPass();
    if (contested.length > 0) await this.waiting.startBefore(contested);
    let early = false;
    for (let first = agenda.first; first && this.starter.room > 0; first = agenda.first) {
      if (!due.looked && !this.dueRuns.isMine(first.job)) {
        due.looked = true;
        await this.dueRuns.passOverDecided(due);
        continue;
      }
      const batch = agenda.take(Math.min(this.starter.room, MOST_IN_A_BATCH));
      const verdicts = await this.starter.startDue(batch);
      agenda.putBack(batch, this.dueRuns.advance(due.cursors, batch, verdicts));
      early ||= verdicts.includes('early');
      // Others are at it just now: most of the rest is decided by now, too.
      if (verdicts.includes('taken')) due.looked = false;
    }
    return early;
  }
}
