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

/** How soon an occurrence is looked at again that could not be decided: too early, or in the way of a late run. */
const LOOK_AGAIN_MS = 250;

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
    const left = await this.claim(this.timelines.live(now).flatMap((timeline) => timeline.due(now)));
    this.undecided = left || missed;
    return this.undecided ? LOOK_AGAIN_MS : Math.max(0, this.timelines.nextDueAt - this.time.now());
  }

  /** Claims no more than there is room for: what is claimed and held back is kept from others. @returns true when something is left */
  private async claim(candidates: readonly Candidate[]): Promise<boolean> {
    const room = Math.max(0, this.options.maxConcurrentRuns - this.runs.size);
    const batch = this.order.sort(candidates).slice(0, room);
    const result = await this.claims.claimDue(batch);
    this.executor.start(result.owned);
    return this.decide(batch, result) || batch.length < candidates.length;
  }

  /** A timeline moves over what is decided, up to the first occurrence that is not: nothing is forgotten behind a newer row. */
  private decide(batch: readonly Candidate[], { verdicts }: ClaimResult): boolean {
    const timelines = new Map(this.timelines.list().map((timeline) => [timeline.job.name, timeline]));
    const stuck = new Set<string>();
    batch.forEach(({ job, fireTime }, index) => {
      const verdict = verdicts[index]!;
      if (verdict === 'early' || verdict === 'waiting') stuck.add(job.name);
      if (!stuck.has(job.name)) timelines.get(job.name)!.decideUntil(fireTime);
    });
    return stuck.size > 0;
  }
}
