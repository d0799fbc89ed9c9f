import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../distributed-scheduler.tokens.js';
import { loopListener } from '../events/loop-listener.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import { ClaimService, type Candidate, type ClaimResult } from '../execution/claim.service.js';
import { ExecutorService } from '../execution/executor.service.js';
import { InFlightRuns } from '../execution/in-flight-runs.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { DatabaseTime } from '../runtime/database-time.js';
import { Loop } from '../runtime/loop.js';
import { CatchUpService } from './catch-up.service.js';
import { ClaimOrder } from './claim-order.js';
import type { JobTimeline } from './job-timeline.js';
import { Timelines } from './timelines.js';
import { WaitingRuns } from './waiting-runs.service.js';

/** How soon an occurrence is looked at again that could not be decided: a run is in its way, or there is no room. */
const LOOK_AGAIN_MS = 250;

/** The database may say that it is a little earlier than was thought here. */
const LEAST_SLEEP_MS = 1;

/** What is another instance's to try is left to it for so long: whoever looks later finds it claimed, and writes nothing. */
const YIELD_MS = 20;

/** Each candidate costs the database a lock while the statement runs, and it has some thousands for everybody. */
const MOST_IN_A_BATCH = 200;

/** What of a tick's candidates could not be decided. */
interface Leftovers {
  /** A run is in the way, or there is no room. */
  readonly left: boolean;
  /** The database calls something not due yet. */
  readonly early: boolean;
  /** When what is left to others for the moment is to be tried here, milliseconds; Infinity when nothing is. */
  readonly yieldedUntil: number;
}

/** One timer to the next due instant of all jobs. Every replica has one; all try, and the database lets one win. */
@Injectable()
export class TickerService {
  private readonly loop: Loop;
  private undecided = false;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    private readonly timelines: Timelines,
    private readonly order: ClaimOrder,
    private readonly claims: ClaimService,
    private readonly executor: ExecutorService,
    private readonly catchUps: CatchUpService,
    private readonly waiting: WaitingRuns,
    private readonly runs: InFlightRuns,
    private readonly time: DatabaseTime,
    events: SchedulerEvents,
  ) {
    this.loop = new Loop(() => this.tick(), {
      maxSleepMs: options.pollIntervalMs,
      ...loopListener(events, 'ticker'),
    });
  }

  start(): void {
    this.loop.start();
  }

  /** Claims nothing more; waits for the claim under way. */
  async stop(): Promise<void> {
    await this.loop.stop();
  }

  /** A job has another schedule than before. */
  wake(): void {
    this.loop.wake();
  }

  /** A run of this instance has ended: there is room, or what was in the way is gone. */
  runEnded(): void {
    if (this.undecided) this.loop.wake();
  }

  /** Claims and starts what is due. What was missed is the catch-up's. @returns milliseconds to the next due instant */
  async tick(): Promise<number> {
    const now = this.time.now();
    const missed = this.timelines.missed(now).length > 0;
    if (missed) this.catchUps.wake();
    const { left, early, yieldedUntil } = await this.claim(this.timelines.live(now), now);
    this.undecided = left || missed;
    const open = this.undecided || yieldedUntil < Infinity;
    // Only here are the next fire times computed: what was claimed has started.
    const nextDueAt = open && !early ? this.timelines.nextDueAfter(now) : this.timelines.nextDueAt;
    const untilDue = Math.max(LEAST_SLEEP_MS, Math.min(nextDueAt, yieldedUntil) - this.time.now());
    return this.undecided ? Math.min(LOOK_AGAIN_MS, untilDue) : untilDue;
  }

  /**
   * Claims batch by batch while there is room: what is claimed and held back is kept from others. A job that can't start
   * now gives its place to the next.
   */
  private async claim(live: readonly JobTimeline[], now: number): Promise<Leftovers> {
    if (this.room === 0) return { left: live.length > 0, early: false, yieldedUntil: Infinity };
    const free = live.filter(({ job }) => !this.runs.lingers(job));
    const timelines = new Map(free.map((timeline) => [timeline.job.name, timeline]));
    const due = this.order.sort(free.flatMap((timeline) => timeline.due(now)));
    const yielded = due.filter(({ job, startsAt }) => startsAt + YIELD_MS > now && !this.order.isMine(job));
    const yieldedUntil = yielded.reduce((earliest, { startsAt }) => Math.min(earliest, startsAt + YIELD_MS), Infinity);
    const others = new Set(yielded);
    let open = due.filter((candidate) => !others.has(candidate));
    await this.waiting.startBefore(open);
    let left = free.length < live.length;
    let early = false;
    let looked = false;
    while (open.length > 0 && this.room > 0) {
      if (!looked && !this.order.isMine(open[0]!.job)) {
        looked = true;
        open = await this.undecidedOf(open, timelines);
        continue;
      }
      const batch = open.slice(0, Math.min(this.room, MOST_IN_A_BATCH));
      const result = await this.runs.reserving(batch.length, async () => {
        const claimed = await this.claims.claimDue(batch);
        this.executor.start(claimed.owned);
        return claimed;
      });
      const stuck = advance(timelines, batch, result);
      left ||= result.verdicts.includes('waiting') || result.verdicts.includes('outdated');
      early ||= result.verdicts.includes('early');
      // Others are at it just now: most of the rest is decided by now, too.
      if (result.verdicts.includes('taken')) looked = false;
      open = open.slice(batch.length).filter(({ job }) => !stuck.has(job.name) && this.timelines.has(timelines.get(job.name)!));
    }
    return { left: left || open.length > 0, early, yieldedUntil };
  }

  /** Those that nobody has decided yet. Of what others were to try most is: a look costs less than a claim that is lost. */
  private async undecidedOf(open: readonly Candidate[], timelines: ReadonlyMap<string, JobTimeline>): Promise<Candidate[]> {
    const decided = await this.claims.decided(open);
    advance(timelines, open, { verdicts: decided.map((isDecided) => (isDecided ? 'taken' : 'waiting')) });
    return open.filter((_, index) => !decided[index]);
  }

  private get room(): number {
    return Math.max(0, this.options.maxConcurrentRuns - this.runs.taken);
  }
}

/**
 * A timeline moves over what is decided, up to the first occurrence that is not: nothing is forgotten behind a newer row.
 * @param timelines those that were asked: a job may have another one by now, with other fire times
 * @returns the jobs it did not move to the end
 */
function advance(timelines: ReadonlyMap<string, JobTimeline>, batch: readonly Candidate[], { verdicts }: Pick<ClaimResult, 'verdicts'>): Set<string> {
  const stuck = new Set<string>();
  batch.forEach(({ job, fireTime }, index) => {
    const verdict = verdicts[index]!;
    if (verdict === 'early' || verdict === 'waiting' || verdict === 'outdated') stuck.add(job.name);
    if (!stuck.has(job.name)) timelines.get(job.name)!.decideUntil(fireTime);
  });
  return stuck;
}
