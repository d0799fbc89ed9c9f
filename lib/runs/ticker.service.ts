import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import type { JobDefinition } from '../options/job-definition.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { ClaimService, type Candidate } from './claim.service.js';
import { ExecutorService } from './executor.service.js';
import { InFlightRuns } from './in-flight-runs.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { DatabaseTime } from '../database/clock.js';
import { isRunEnd, type SchedulerEvent } from '../observe/scheduler-event.js';
import { Duty } from '../observe/duty.js';
import type { ClaimVerdict } from './claim.js';
import { Agenda } from './agenda.js';
import { CatchUpService } from '../catch-up/catch-up.service.js';
import { ClaimOrder } from './claim-order.js';
import type { JobCursor } from '../jobs/job-cursor.js';
import { JobCursors } from '../jobs/job-cursors.js';
import { placesOf, WaitingRuns } from './waiting-runs.service.js';

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

/** What is due at one instant. */
interface Due {
  readonly agenda: Agenda;
  /** Those it comes from: a job may have another one by now, with other fire times. */
  readonly cursors: ReadonlyMap<JobDefinition, JobCursor>;
  readonly lookedAt: number;
  /** Those that runs may have waited for longer, in the same places. */
  readonly contested: readonly Candidate[];
  /** Some of it was missed, or a handler of its job lingers here. */
  readonly heldBack: boolean;
  /** Left to others for the moment. */
  readonly yielded: readonly Candidate[];
  /** When the first of that is to be tried here, milliseconds; Infinity when nothing is. */
  readonly yieldedUntil: number;
  /** Whether any of the rest has been decided by others was looked for. */
  looked: boolean;
  /** When something else is due, milliseconds; as it was when the first of this had started. */
  nextDueAt: number | null;
}

/** One timer to the next due instant of all jobs. Every replica has one; all try, and the database lets one win. */
@Injectable()
export class TickerService extends Duty {
  private undecided = false;
  /** What there was no room for. */
  private kept: Due | null = null;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    private readonly cursors: JobCursors,
    private readonly order: ClaimOrder,
    private readonly claims: ClaimService,
    private readonly executor: ExecutorService,
    private readonly catchUps: CatchUpService,
    private readonly waiting: WaitingRuns,
    private readonly runs: InFlightRuns,
    private readonly time: DatabaseTime,
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
    const now = this.time.now();
    const due = this.keptAt(now) ?? this.look(now);
    const early = await this.claim(due);
    const isLeft = due.agenda.isLeft;
    this.kept = isLeft && this.room === 0 && !early ? due : null;
    this.undecided = isLeft || due.heldBack;
    const open = this.undecided || due.yieldedUntil < Infinity;
    // Only here are the next fire times computed: what was claimed has started.
    due.nextDueAt ??= open && !early ? this.cursors.nextDueAfter(now) : this.cursors.nextDueAt;
    let next = Math.min(due.nextDueAt, due.yieldedUntil);
    // It has come due while there was no room for it, either.
    if (next <= now && due === this.kept) next = this.cursors.nextDueAfter(now);
    const untilDue = Math.max(LEAST_SLEEP_MS, next - this.time.now());
    return this.undecided ? Math.min(LOOK_AGAIN_MS, untilDue) : untilDue;
  }

  /** What was kept, unless there is room by now and something else to be tried besides. */
  private keptAt(now: number): Due | null {
    const { kept } = this;
    if (!kept || now >= kept.lookedAt + KEPT_FOR_MS) return null;
    return this.room === 0 || now < Math.min(kept.nextDueAt ?? Infinity, kept.yieldedUntil) ? kept : null;
  }

  private look(now: number): Due {
    const { live, missed } = this.cursors.due(now);
    if (missed.length > 0) this.catchUps.wake();
    const free = live.filter(({ job }) => !this.runs.lingers(job));
    const due = this.order.sort(free.flatMap((cursor) => cursor.due(now)));
    const open: Candidate[] = [];
    const yielded: Candidate[] = [];
    let yieldedUntil = Infinity;
    for (const candidate of due) {
      const until = candidate.startsAt + this.order.yieldMs(candidate.job);
      if (until > now) yieldedUntil = Math.min(yieldedUntil, until);
      (until > now ? yielded : open).push(candidate);
    }
    const cursors = new Map(free.map((cursor) => [cursor.job, cursor]));
    const isOpen = ({ job, fireTime }: Candidate) => {
      const cursor = cursors.get(job)!;
      return fireTime > cursor.decidedUntil && this.cursors.has(cursor) && !this.runs.lingers(job);
    };
    return {
      agenda: new Agenda(open, isOpen),
      cursors,
      lookedAt: now,
      contested: open.filter(({ job }) => placesOf(job) !== null),
      heldBack: missed.length > 0 || free.length < live.length,
      yielded,
      yieldedUntil,
      looked: false,
      nextDueAt: null,
    };
  }

  /**
   * Claims batch by batch while there is room: what is claimed and held back is kept from others. A job that can't
   * start now gives its place to the next.
   * @returns true when the database calls something not due yet
   */
  private async claim(due: Due): Promise<boolean> {
    if (this.room === 0) return false;
    const { agenda, contested } = due;
    agenda.startPass();
    if (contested.length > 0) await this.waiting.startBefore(contested);
    let early = false;
    for (let first = agenda.first; first && this.room > 0; first = agenda.first) {
      if (!due.looked && !this.order.isMine(first.job)) {
        due.looked = true;
        await this.passOverDecided(due);
        continue;
      }
      const batch = agenda.take(Math.min(this.room, MOST_IN_A_BATCH));
      const { verdicts } = await this.runs.reserving(batch.length, async () => {
        const claimed = await this.claims.claimDue(batch);
        this.executor.start(claimed.owned);
        return claimed;
      });
      agenda.putBack(batch, advance(due.cursors, batch, verdicts));
      early ||= verdicts.includes('early');
      // Others are at it just now: most of the rest is decided by now, too.
      if (verdicts.includes('taken')) due.looked = false;
    }
    return early;
  }

  /**
   * Of what others were to try most is decided by now: a look costs less than a claim that is lost. It is for all there
   * is, also for what is still left to them, or each would need a look of its own later.
   */
  private async passOverDecided({ agenda, cursors, yielded }: Due): Promise<void> {
    const open = [...agenda.rest(), ...yielded];
    const decided = await this.claims.decided(open);
    advance(
      cursors,
      open,
      decided.map((isDecided) => (isDecided ? 'taken' : 'waiting')),
    );
  }

  private get room(): number {
    return Math.max(0, this.options.maxConcurrentRuns - this.runs.taken);
  }
}

/**
 * A cursor moves over what is decided, up to the first occurrence that is not: nothing is forgotten behind a newer
 * row.
 * @returns the jobs it did not move to the end
 */
function advance(cursors: Due['cursors'], batch: readonly Candidate[], verdicts: readonly ClaimVerdict[]): Set<string> {
  const stuck = new Set<string>();
  batch.forEach(({ job, fireTime }, index) => {
    const verdict = verdicts[index]!;
    if (verdict === 'early' || verdict === 'waiting' || verdict === 'outdated') stuck.add(job.name);
    if (!stuck.has(job.name)) cursors.get(job)!.decideUntil(fireTime);
  });
  return stuck;
}
