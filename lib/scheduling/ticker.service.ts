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

  /** A run of this instance has ended: there is room, or what was in the way is gone. */
  runEnded(): void {
    if (this.undecided) this.loop.wake();
  }

  /** Claims and starts what is due. What was missed is the catch-up's. @returns milliseconds to the next due instant */
  async tick(): Promise<number> {
    const now = this.time.now();
    const missed = this.timelines.missed(now).length > 0;
    if (missed) this.catchUps.wake();
    const { decided, waiting, left } = await this.claim(this.timelines.live(now).flatMap((timeline) => timeline.due(now)));
    this.undecided = waiting > 0 || left > 0 || missed;
    if (left > 0 && decided > 0 && this.room > 0) return 0;
    return this.undecided ? LOOK_AGAIN_MS : Math.max(LEAST_SLEEP_MS, this.timelines.nextDueAt - this.time.now());
  }

  /** Claims no more than there is room for: what is claimed and held back is kept from others. */
  private async claim(candidates: readonly Candidate[]): Promise<{ decided: number; waiting: number; left: number }> {
    const batch = this.order.sort(candidates).slice(0, Math.min(this.room, MOST_IN_A_BATCH));
    const result = await this.claims.claimDue(batch);
    this.executor.start(result.owned);
    const waiting = result.verdicts.filter((verdict) => verdict === 'waiting').length;
    return { decided: this.advance(batch, result), waiting, left: candidates.length - batch.length };
  }

  /**
   * A timeline moves over what is decided, up to the first occurrence that is not: nothing is forgotten behind a newer row.
   * @returns how many it moved over
   */
  private advance(batch: readonly Candidate[], { verdicts }: ClaimResult): number {
    const stuck = new Set<string>();
    let decided = 0;
    batch.forEach(({ job, fireTime }, index) => {
      const verdict = verdicts[index]!;
      if (verdict === 'early' || verdict === 'waiting') stuck.add(job.name);
      if (stuck.has(job.name)) return;
      this.timelines.get(job.name)!.decideUntil(fireTime);
      decided += 1;
    });
    return decided;
  }

  private get room(): number {
    return Math.max(0, this.options.maxConcurrentRuns - this.runs.size);
  }
}
