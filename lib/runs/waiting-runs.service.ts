import { Injectable } from '@nestjs/common';
import { monotonicNow } from '../database/clock.js';
import { JobCursors } from '../jobs/job-cursors.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import type { JobDefinition } from '../options/job-definition.js';
import type { RunKey, RunTrigger } from '../options/run.js';
import type { Candidate } from '../jobs/job-cursors.js';
import { RunStarter } from './executor.service.js';
import { type ReaperOutlook, ReapingRepository, type StartableRun } from './reaping.repository.js';

/** Since when the oldest occurrence that is due waits for each kind of places. Milliseconds. */
type Contested = ReadonlyMap<string, number>;

/**
 * Whose turn it is where what comes due and what waits want the same few places: who has waited longer. A backlog is
 * one in this line as a whole, or a hundred runs that were caught up would all go before what is due: each of its runs
 * waits since the one before it has started here. Milliseconds by the database's clock.
 */
class ContestedPlaces {
  private readonly backlogs = new Map<string, number>();

  /** When a backlog last had such a place as the job wants, on this instance. */
  backlogStartedAt(job: JobDefinition): number | null {
    return this.backlogs.get(placesOf(job) ?? '') ?? null;
  }

  started(runs: readonly { readonly job: JobDefinition; readonly trigger: RunTrigger }[], now: number): void {
    for (const { job, trigger } of runs) {
      const places = placesOf(job);
      if (places !== null && isBacklog({ trigger })) this.backlogs.set(places, now);
    }
  }
}

function contestedBy(due: readonly { readonly job: JobDefinition; readonly startsAt: number }[]): Contested {
  const contested = new Map<string, number>();
  for (const { job, startsAt } of due) {
    const places = placesOf(job);
    if (places !== null) contested.set(places, Math.min(startsAt, contested.get(places) ?? Infinity));
  }
  return contested;
}

/** Of a run that waits: longer than everything that is due. */
function isOlder({ since }: { readonly since: Date }, job: JobDefinition, contested: Contested): boolean {
  return since.getTime() < (contested.get(placesOf(job) ?? '') ?? -Infinity);
}

/** What a person asks for now is none: it may have the last slot, like what the schedule says. */
function isBacklog({ trigger }: { readonly trigger: RunTrigger }): boolean {
  return trigger === 'catch-up' || trigger === 'backfill';
}

/** The places that runs of the job wait for, beside those of the instance; null when there are none. */
export function placesOf({ name, overlap, parallel, concurrencyGroup }: JobDefinition): string | null {
  if (concurrencyGroup) return `group ${concurrencyGroup.name}`;
  return overlap === 'allow' && parallel !== null ? `job ${name}` : null;
}

/**
 * Starts runs that wait for their turn. A backlog (what is caught up, what a backfill queued) never takes the last
 * slots of an instance, and a backfill gives way to what comes due: they are the live occurrences'.
 */
@Injectable()
export class WaitingRuns {
  private readonly places = new ContestedPlaces();

  constructor(
    private readonly jobs: KnownJobs,
    private readonly store: ReapingRepository,
    private readonly starter: RunStarter,
    private readonly cursors: JobCursors,
  ) {}

  /**
   * What there is to reap and to start, by one cheap look.
   * @param resting runs whose leases do not count: they were refused
   */
  async outlook(resting: readonly RunKey[]): Promise<ReaperOutlook> {
    const names = this.jobs.runnable().map(({ definition }) => definition.name);
    const sentAt = monotonicNow();
    const outlook = await this.store.outlook(names, resting);
    this.starter.time.observe(outlook.now, sentAt);
    return outlook;
  }

  /** Milliseconds until an occurrence of any job is due; not below 0. */
  get untilDue(): number {
    return Math.max(0, this.cursors.nextDueAt - this.starter.time.now());
  }

  /** @returns how many were started */
  async start(): Promise<number> {
    return this.startThose(this.startable());
  }

  /**
   * Starts what has waited longer than these for a place that both want: in a concurrency group, or among the runs that
   * a job allows beside each other. Where more comes due than there are places, what waits would never have one else.
   */
  async startBefore(due: readonly Candidate[]): Promise<void> {
    const contested = contestedBy(due);
    if (contested.size === 0) return;
    const jobs = new Map([...this.startable()].filter(([, job]) => contested.has(placesOf(job) ?? '')));
    await this.startThose(jobs, (run, job) => isOlder(run, job, contested));
  }

  private async startThose(
    jobs: ReadonlyMap<string, JobDefinition>,
    isNext: (run: StartableRun, job: JobDefinition) => boolean = () => true,
  ): Promise<number> {
    const { room, places: slots } = this.starter;
    if (room === 0 || jobs.size === 0) return 0;
    const { nextDueAt } = this.cursors;
    const slotNeededAt = slots === 1 ? instant(nextDueAt) : null;
    const found = await this.store.waiting(
      [...jobs.values()].map((job) => ({
        ...job,
        nextDueAt: this.nextDueOf(job),
        backlogStartedAt: instant(this.places.backlogStartedAt(job) ?? Infinity),
      })),
      room,
      slotNeededAt,
    );
    const waiting = found.filter((run) => isNext(run, jobs.get(run.jobName)!));
    const backlog = backlogRoom(slots, this.starter.taken, nextDueAt - this.starter.time.now());
    // Live ones come first: what is behind them has the room that they leave.
    const fitting = waiting.slice(0, this.starter.room).filter((run, index) => !isBacklog(run) || index < backlog);
    const owned = await this.starter.startWaiting(
      fitting.map((run) => ({ ...run, placeNeededAt: this.placeNeededAt(run, jobs.get(run.jobName)!, slotNeededAt) })),
      jobs,
    );
    this.places.started(
      owned.map(({ jobName, trigger }) => ({ job: jobs.get(jobName)!, trigger })),
      this.starter.time.now(),
    );
    return owned.length;
  }

  private startable(): Map<string, JobDefinition> {
    const known = this.jobs.runnable().map(({ definition }) => definition);
    return new Map(known.filter((job) => !this.starter.lingers(job)).map((job) => [job.name, job]));
  }

  private placeNeededAt({ beside }: StartableRun, job: JobDefinition, slotNeededAt: Date | null): Date | null {
    const nextDue = beside || job.overlap === 'allow' ? null : this.nextDueOf(job);
    return instant(Math.min(nextDue?.getTime() ?? Infinity, slotNeededAt?.getTime() ?? Infinity));
  }

  private nextDueOf({ name }: JobDefinition): Date | null {
    return instant(this.cursors.get(name)?.dueAt ?? Infinity);
  }
}

function instant(millis: number): Date | null {
  return millis === Infinity ? null : new Date(millis);
}

/**
 * How near a live occurrence is too near for an instance with one slot, in milliseconds: the reaper looks no oftener.
 */
const TOO_NEAR_MS = 500;

/**
 * How many runs an instance may start of a backlog (catch-up, backfill), beside what it has in hand. A quarter of its
 * slots, and at least one, is kept for live occurrences; the only slot of an instance is given when none is due.
 * @param untilLiveMs milliseconds until the next live occurrence of any job may start; not above 0 when one is due
 */
export function backlogRoom(slots: number, taken: number, untilLiveMs: number): number {
  if (slots === 1) return taken === 0 && untilLiveMs > TOO_NEAR_MS ? 1 : 0;
  const kept = Math.max(1, Math.floor(slots / 4));
  return Math.max(0, slots - kept - taken);
}
