import { Injectable, Inject } from '@nestjs/common';
import { OperationRefusedError } from '../errors/errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { DatabaseTime, monotonicNow } from '../database/clock.js';
import type { SchedulerEvent } from '../observe/scheduler-event.js';
import type { WakeUp } from '../database/tables.js';
import { Duty } from '../observe/duty.js';
import { JobScheduleStore, type SeenChanges } from './job-schedule.store.js';
import type { StoredJob } from './stored-job.js';
import { TakeOverStore } from './schedule-changes.store.js';
import { FollowedSchedules } from './followed-schedules.js';
import { OtherInstances, InstanceRegistration, UnregisteredJobs } from './live-instances.service.js';
import { Rewinding } from './watermark.service.js';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { WakeUps } from '../observe/wake-ups.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';

/** An instance with nothing in hand looks in at each of so many polls. */
const QUIET_POLLS = 3;

/** Where nothing is open and nothing falls due, runs are looked for at each of so many polls. */
const IDLE_POLLS = 6;

/**
 * How often an instance asks the database what has changed. While it is sure to be woken up it may take its time;
 * behind a pooler, or while its connection is being made again, it keeps to `pollInterval`.
 */
@Injectable()
export class PollPace {
  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: Pick<ResolvedSchedulerOptions, 'pollIntervalMs'>,
    private readonly wakeUps: WakeUps,
  ) {}

  /** Milliseconds between two looks, as long as anything is open. */
  get usualMs(): number {
    return this.options.pollIntervalMs;
  }

  /** Milliseconds to the next look for what has changed. @param isBusy a handler is under way that may have to be told */
  changesMs(isBusy: boolean): number {
    return this.wakeUps.areHeard && !isBusy ? QUIET_POLLS * this.usualMs : this.usualMs;
  }

  /** Milliseconds to the next look for runs, when none is open. */
  get idleMs(): number {
    return this.wakeUps.areHeard ? IDLE_POLLS * this.usualMs : this.usualMs;
  }

  /** The longest of all, in milliseconds. */
  get longestMs(): number {
    return IDLE_POLLS * this.usualMs;
  }
}

/** What is asked for in the same statement as the schedules, and who is told what it found: runs and backfills. */
interface LookedAtBesides {
  readonly flags: () => readonly string[];
  /** A handler is under way here, which may have to be told something soon. */
  readonly isBusy: () => boolean;
  readonly tell: (seen: SeenChanges) => void;
}

/**
 * Keeps this instance's jobs as the database has them: one schedule for all replicas, whatever each one's code says. It
 * says that the instance is there, follows what has changed, and takes over what no other live instance declares any
 * more.
 */
@Injectable()
export class ScheduleFollower extends Duty {
  /** Every change up to this revision has been looked at. */
  private seen = 0;
  /** Jobs of which the database said that they are others by now. */
  private readonly doubtful = new Set<string>();
  private besides: LookedAtBesides = { flags: () => [], isBusy: () => false, tell: () => {} };
  /** The instances that were there, and what was contested, when it was last tried to take over. */
  private tried = '';

  constructor(
    private readonly presence: InstanceRegistration,
    private readonly followed: FollowedSchedules,
    private readonly rewinding: Rewinding,
    private readonly schedules: JobScheduleStore,
    private readonly takeOvers: TakeOverStore,
    private readonly unregistered: UnregisteredJobs,
    private readonly others: OtherInstances,
    private readonly pace: PollPace,
    private readonly time: DatabaseTime,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'schedules', maxSleepMs: pace.longestMs });
    events.of('job.outdated').subscribe(({ jobName }) => this.lookAt(jobName));
  }

  /** One for all that go by it. */
  looksBesidesFor(besides: LookedAtBesides): void {
    this.besides = besides;
  }

  protected pass(): Promise<number> {
    return this.follow();
  }

  /** Writes what the code declares, and starts each job's cursor where its occurrences are decided. */
  async declare(): Promise<void> {
    const { facts, takesPart } = this.presence;
    const sentAt = monotonicNow();
    const { databaseNow, othersMayBeBack, jobs } = await this.schedules.declare(facts.jobs, takesPart ? facts : null);
    this.time.observe(databaseNow, sentAt);
    this.take(jobs);
    if (othersMayBeBack) this.presence.giveOthersTime();
    else if (takesPart) await this.takeOver().catch(leaveForLater);
    this.followed.started();
    if (takesPart) await this.others.look();
  }

  override start(): void {
    // What was changed between the registration and now, such as in an onModuleInit, is followed at once.
    super.start(this.doubtful.size > 0 ? 0 : this.pace.usualMs);
  }

  override hear(event: SchedulerEvent): void {
    if (event.type === 'run.claimed') this.lookAtNextPoll();
  }

  override hearOthers(wakeUp: WakeUp): void {
    if (wakeUp !== 'runs') this.wake();
  }

  /** A run begins here, whose handler may have to be told something, or nobody wakes this instance up any more. */
  override lookAtNextPoll(): void {
    this.wakeWithin(this.pace.usualMs);
  }

  /** The job was seen to be another by now. */
  private lookAt(jobName: string): void {
    this.doubtful.add(jobName);
    this.wake();
  }

  /** One pass. @returns milliseconds to the next */
  async follow(): Promise<number> {
    const sentAt = monotonicNow();
    const doubtful = [...this.doubtful];
    const seen = await this.schedules.lookIn(this.presence.facts, this.seen, doubtful, this.besides.flags());
    const { databaseNow, present, company, jobs, isOther, seenOn } = seen;
    this.time.observe(databaseNow, sentAt);
    this.besides.tell(seen);
    if (!present) await this.presence.announceAgain();
    // Revisions that were handed out before may be handed out again.
    if (isOther) this.seen = 0;
    this.take(jobs);
    const there = new Set(jobs.map(({ name }) => name));
    await this.restore((isOther ? this.followed.names : doubtful).filter((name) => !there.has(name)));
    if (isOther) {
      await this.rewinding.rewind(jobs);
      this.schedules.trust(seenOn);
    }
    for (const name of doubtful) this.doubtful.delete(name);
    const instances = company.join(' ');
    await this.takeOverFrom(instances);
    await this.unregistered.look(instances);
    if (this.presence.takesPart) await this.others.lookWhenChanged(instances);
    return this.pace.changesMs(this.besides.isBusy());
  }

  /** All that has changed since the last look. */
  private take(jobs: readonly StoredJob[]): void {
    for (const stored of jobs) {
      this.followed.take(stored);
      this.seen = Math.max(this.seen, stored.revision);
    }
  }

  /** Whose rows somebody deleted: a job that the code declares is made anew, one made at run time is gone. */
  private async restore(missing: readonly string[]): Promise<void> {
    if (missing.length === 0) return;
    const declared = this.presence.facts.jobs.filter(({ name }) => missing.includes(name));
    for (const name of missing) this.followed.forget(name);
    if (declared.length > 0) this.take((await this.schedules.declare(declared, null)).jobs);
  }

  /** Tried when there is a reason to: it looks through what all instances declare. */
  private async takeOverFrom(company: string): Promise<void> {
    if (!this.presence.mayTakeOver) return;
    const reasons = `${company} ${this.followed.contests}`;
    if (reasons === this.tried) return;
    await this.takeOver();
    this.tried = reasons;
  }

  /** What it changes does not count as seen: others may have changed something before. */
  private async takeOver(): Promise<void> {
    const jobs = this.followed.contestedJobs;
    if (jobs.length === 0) return;
    for (const stored of await this.takeOvers.takeOver(jobs, this.presence.facts.instanceId))
      this.followed.take(stored);
  }
}

/** The first look tries again. */
function leaveForLater(error: unknown): void {
  if (!(error instanceof OperationRefusedError && error.code === 'changed-meanwhile')) throw error;
}
