import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../distributed-scheduler.tokens.js';
import { describeError } from '../domain/stored-error.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import { ClaimService, type Candidate, type ClaimResult } from '../execution/claim.service.js';
import { ExecutorService } from '../execution/executor.service.js';
import { InFlightRuns } from '../execution/in-flight-runs.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { DatabaseTime } from '../runtime/database-time.js';
import { Loop } from '../runtime/loop.js';
import { CatchUpService } from './catch-up.service.js';
import { ClaimOrder } from './claim-order.js';
import { Timelines } from './timelines.js';

/** How soon an occurrence is looked at again that could not be decided: a run is in its way, or there is no room. */
const LOOK_AGAIN_MS = 250;

/** The database may say that it is a little earlier than was thought here. */
const LEAST_SLEEP_MS = 1;

/** Each candidate costs the database a lock while the statement runs, and it has some thousands for everybody. */
const MOST_IN_A_BATCH = 200;

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
    private readonly runs: InFlightRuns,
    private readonly time: DatabaseTime,
    events: SchedulerEvents,
  ) {
    this.loop = new Loop(() => this.tick(), {
      maxSleepMs: options.pollIntervalMs,
      onFailure: (error, failures) => events.emit({ type: 'loop.failed', loop: 'ticker', error: describeError(error), failures }),
      onRecovery: () => events.emit({ type: 'loop.recovered', loop: 'ticker' }),
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
    const left = await this.claim(this.timelines.live(now).flatMap((timeline) => timeline.due(now)));
    this.undecided = left || missed;
    return this.undecided ? LOOK_AGAIN_MS : Math.max(LEAST_SLEEP_MS, this.timelines.nextDueAt - this.time.now());
  }

  /**
   * Claims batch by batch while there is room: what is claimed and held back is kept from others. A job that can't start
   * now gives its place to the next.
   * @returns true when something is left to be looked at again
   */
  private async claim(candidates: readonly Candidate[]): Promise<boolean> {
    const free = candidates.filter(({ job }) => !this.runs.lingers(job));
    let open = this.order.sort(free);
    let waiting = free.length < candidates.length;
    while (open.length > 0 && this.room > 0) {
      const batch = open.slice(0, Math.min(this.room, MOST_IN_A_BATCH));
      const result = await this.claims.claimDue(batch);
      this.executor.start(result.owned);
      const stuck = this.advance(batch, result);
      waiting ||= result.verdicts.includes('waiting');
      open = open.slice(batch.length).filter(({ job }) => !stuck.has(job.name));
    }
    return waiting || open.length > 0;
  }

  /**
   * A timeline moves over what is decided, up to the first occurrence that is not: nothing is forgotten behind a newer row.
   * @returns the jobs it did not move to the end
   */
  private advance(batch: readonly Candidate[], { verdicts }: ClaimResult): Set<string> {
    const stuck = new Set<string>();
    batch.forEach(({ job, fireTime }, index) => {
      const verdict = verdicts[index]!;
      if (verdict === 'early' || verdict === 'waiting' || verdict === 'outdated') stuck.add(job.name);
      if (!stuck.has(job.name)) this.timelines.get(job.name)?.decideUntil(fireTime);
    });
    return stuck;
  }

  private get room(): number {
    return Math.max(0, this.options.maxConcurrentRuns - this.runs.size);
  }
}
