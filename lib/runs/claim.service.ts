import { Inject, Injectable } from '@nestjs/common';
import { INSTANCE_ID } from '../options/tokens.js';
import type { JobDefinition } from '../options/job-definition.js';
import { type OwnedRun, runId, type RunKey } from '../options/run.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { DatabaseTime } from '../database/clock.js';
import { monotonicNow } from '../database/clock.js';
import { LONGEST_TIMER_MS } from '../options/duration.js';
import { Duty } from '../observe/duty.js';
import type { Candidate } from '../jobs/job-cursors.js';
import { InFlightRuns } from './in-flight-runs.js';
import { JobRunRepository, type PossibleClaim } from './job-run.repository.js';
import {
  type ClaimAnswer,
  type ClaimAnswers,
  claimFacts,
  type ClaimVerdict,
  dueFacts,
  type WaitingRun,
} from './claim.js';
import type { JobRun } from './job-run.entity.js';
import { isRefusal } from '../database/sql-state.js';
import { FlagAnswers } from './flag-answers.js';
import { ReceiptRepository } from '../receipts/receipt.repository.js';
import { RefusedData } from './refused-data.js';

/** How soon it is looked again, in milliseconds: what was sent before the line broke may be carried out only later. */
const LOOK_AGAIN_MS = 1_000;

/**
 * Claims that were sent and never answered. Where the database has carried one out, this very instance owns a run that
 * it does not start, and that nobody else may start for a lease. Such a run is handed back, and does not count as an
 * attempt.
 */
@Injectable()
export class UnconfirmedClaims extends Duty {
  override readonly goesOn = 'until the end';
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

function idOf(claim: Omit<PossibleClaim, 'leaseMs'>): string {
  return `${runId(claim)}#${claim.attempt} by ${claim.claim}`;
}

/** What became of a batch. */
export interface ClaimResult {
  /** Won: they must be started. */
  readonly owned: readonly OwnedRun[];
  /** One for each candidate, in the order they were given. */
  readonly verdicts: readonly ClaimVerdict[];
}

/** Turns due occurrences into runs this instance owns. Losing is silent. */
@Injectable()
export class ClaimService {
  /** Each that is sent has a number. */
  private claims = 0;
  private readonly refused: RefusedData;

  constructor(
    private readonly runs: JobRunRepository,
    private readonly receipts: ReceiptRepository,
    private readonly time: DatabaseTime,
    private readonly events: SchedulerEvents,
    private readonly lost: UnconfirmedClaims,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
    private readonly flags: FlagAnswers,
  ) {
    this.refused = new RefusedData(events);
  }

  /** Claims every candidate that is due and free, in one batch. */
  async claimDue(candidates: readonly Candidate[]): Promise<ClaimResult> {
    if (candidates.length === 0) return { owned: [], verdicts: [] };
    const jobs = new Map(candidates.map(({ job }) => [job.name, job]));
    const off = await this.flags.off(candidates.map(({ job }) => job.flag));
    const due = candidates.map(({ job, fireTime, startsAt, byHand = false }) => ({
      ...dueFacts(job, off.get(job.flag) ?? null),
      jobName: job.name,
      fireTime: new Date(fireTime),
      startsAt: new Date(startsAt),
      byHand,
    }));
    const claimed = await this.refused.takeApart(
      'claim',
      due,
      ({ jobName }) => jobName,
      async (part) => [
        await this.ask(
          jobs,
          part.map((one) => ({ ...one, attempt: 1 })),
          (claim) => this.runs.claimDue(part, this.instanceId, claim),
        ),
      ],
    );
    const verdicts = new Map(claimed.flatMap(({ answers }) => answers).map((answer) => [key(answer), answer.verdict]));
    return {
      owned: claimed.flatMap(({ owned }) => owned),
      verdicts: due.map((one) => verdicts.get(key(one)) ?? 'waiting'),
    };
  }

  /** Whether each of these has a row by now. A look, which takes no lock and claims nothing. */
  async decided(candidates: readonly Candidate[]): Promise<boolean[]> {
    const keys = candidates.map(({ job, fireTime }) => ({ jobName: job.name, fireTime: new Date(fireTime) }));
    const rows = new Set((await this.runs.withRow(keys)).map(key));
    return keys.map((one) => rows.has(key(one)));
  }

  /** Claims runs that wait for their next attempt, or for their first after a gap. */
  async claimWaiting(
    waiting: readonly Pick<WaitingRun, 'jobName' | 'fireTime' | 'attempt' | 'placeNeededAt'>[],
    jobs: ReadonlyMap<string, JobDefinition>,
  ): Promise<readonly OwnedRun[]> {
    const off = await this.flags.off(waiting.map(({ jobName }) => jobs.get(jobName)?.flag ?? null));
    const known = waiting.flatMap((run) => {
      const job = jobs.get(run.jobName);
      return job ? [{ ...run, ...claimFacts(job, off.get(job.flag) ?? null) }] : [];
    });
    if (known.length === 0) return [];
    const started = await this.refused.takeApart('start', known, key, async (part) => [
      await this.ask(
        jobs,
        part.map((run) => ({ ...run, attempt: run.attempt + 1 })),
        (claim) => this.runs.claimWaiting(part, this.instanceId, claim),
      ),
    ]);
    return started.flatMap(({ owned }) => owned);
  }

  /** The run of one occurrence, or null: what happened to it, by which instance, at which attempt. */
  find(key: RunKey): Promise<JobRun | null> {
    return this.runs.ofOccurrence(key);
  }

  /** The receipts of one occurrence, oldest first. */
  receiptsOf(key: RunKey): ReturnType<ReceiptRepository['ofOccurrence']> {
    return this.receipts.ofOccurrence(key);
  }

  /** @param claims the attempts that begin, if all are won */
  private async ask(
    jobs: ReadonlyMap<string, JobDefinition>,
    claims: readonly Omit<PossibleClaim, 'claim'>[],
    statement: (claim: number) => Promise<ClaimAnswers>,
  ): Promise<{ owned: OwnedRun[]; answers: readonly ClaimAnswer[] }> {
    const sentAt = monotonicNow();
    const claim = ++this.claims;
    const { databaseNow, answers } = await statement(claim).catch((error: unknown) => {
      if (!isRefusal(error)) this.lost.remember(claims.map((one) => ({ ...one, claim })));
      throw error;
    });
    if (answers.length > 0) this.time.observe(databaseNow, sentAt);
    const owned = answers
      .filter(({ verdict }) => verdict === 'claimed')
      .map((answer) => this.owned(answer, jobs.get(answer.jobName)!.leaseMs, sentAt));
    for (const { checkpoint: _, ...run } of owned) this.events.emit({ type: 'run.claimed', ...run });
    for (const answer of answers) {
      const { jobName, fireTime, attempt, pages } = answer;
      if (answer.verdict === 'fanned_out')
        this.events.emit({ type: 'run.fannedOut', jobName, fireTime, attempt: attempt!, pages: pages!, durationMs: 0 });
      if (answer.verdict === 'outdated') this.events.emit({ type: 'job.outdated', jobName });
      if (answer.verdict === 'skipped')
        this.events.emit({ type: 'run.skipped', jobName, fireTime, reason: answer.reason! });
      if (answer.verdict === 'queued') this.events.emit({ type: 'run.queued', jobName, fireTime, trigger: 'schedule' });
    }
    return { owned, answers };
  }

  private owned(answer: ClaimAnswer, leaseMs: number, sentAt: number): OwnedRun {
    return {
      jobName: answer.jobName,
      fireTime: answer.fireTime,
      attempt: answer.attempt!,
      releases: answer.releases ?? 0,
      trigger: answer.trigger!,
      beside: answer.beside ?? false,
      data: answer.data ?? undefined,
      checkpoint: answer.checkpoint,
      instanceId: this.instanceId,
      leaseMs,
      leaseUntil: answer.leaseUntil!,
      leaseDeadline: sentAt + leaseMs,
    };
  }
}

function key(run: RunKey): string {
  return `${run.jobName}@${run.fireTime.getTime()}`;
}
