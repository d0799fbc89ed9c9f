import { Inject, Injectable } from '@nestjs/common';
import { INSTANCE_ID } from '../options/tokens.js';
import { LONGEST_TIMER_MS } from '../options/duration.js';
import { runId } from '../options/run.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { Duty } from '../observe/duty.js';
import { monotonicNow } from '../database/clock.js';
import { JobRunRepository, type UnheardClaim } from './job-run.repository.js';
import { InFlightRuns } from './in-flight-runs.js';
import { RefusedData } from './refused-data.js';

/** How soon it is looked again, in milliseconds: what was sent before the line broke may be carried out only later. */
const LOOK_AGAIN_MS = 1_000;

/** An attempt that this instance may own without knowing. */
export interface PossibleClaim extends UnheardClaim {
  readonly leaseMs: number;
}

/**
 * Claims that were sent and never answered. Where the database has carried one out, this very instance owns a run that
 * it does not start, and that nobody else may start for a lease. Such a run is handed back, and does not count as an
 * attempt.
 */
@Injectable()
export class UnconfirmedClaims extends Duty {
  private readonly possible = new Map<string, PossibleClaim & { readonly until: number }>();
  private readonly refused: RefusedData;

  constructor(
    private readonly store: JobRunRepository,
    private readonly runs: InFlightRuns,
    events: SchedulerEvents,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
  ) {
    super(events, { name: null, maxSleepMs: LONGEST_TIMER_MS, maxRetryMs: LOOK_AGAIN_MS });
    this.refused = new RefusedData(events);
  }

  protected pass(): Promise<number> {
    return this.handBack();
  }

  override start(): void {
    super.start(LONGEST_TIMER_MS);
  }

  /** Takes claims whose answer was lost just now. */
  remember(claims: readonly PossibleClaim[]): void {
    // After so long whoever claimed it has lost it, and the reaper has it.
    for (const claim of claims) this.possible.set(idOf(claim), { ...claim, until: monotonicNow() + claim.leaseMs });
    if (claims.length > 0) this.wake();
  }

  /** Hands back what was carried out. @returns milliseconds until it looks again */
  async handBack(): Promise<number> {
    const now = monotonicNow();
    for (const [id, claim] of this.possible) {
      if (claim.until <= now || this.runs.get(runId(claim), claim.attempt)) this.possible.delete(id);
    }
    if (this.possible.size === 0) return Infinity;
    const unheard = [...this.possible.values()];
    for (const handedBack of await this.refused.takeApart('hand back', unheard, idOf, (part) =>
      this.store.handBack(part, this.instanceId),
    )) {
      const { jobName, fireTime, attempt } = handedBack;
      this.possible.delete(idOf(handedBack));
      this.events.emit({ type: 'run.released', jobName, fireTime, attempt });
    }
    return this.possible.size === 0 ? Infinity : LOOK_AGAIN_MS;
  }
}

function idOf(claim: UnheardClaim): string {
  return `${runId(claim)}#${claim.attempt} by ${claim.claim}`;
}
