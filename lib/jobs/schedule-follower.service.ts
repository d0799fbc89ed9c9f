import { Injectable } from '@nestjs/common';
import { OperationRefusedError } from '../errors/errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { Cancellations } from '../runs/cancellations.js';
import { DatabaseTime } from '../database/clock.js';
import type { SchedulerEvent } from '../observe/scheduler-event.js';
import type { WakeUp } from '../database/tables.js';
import { Duty } from '../observe/duty.js';
import { monotonicNow } from '../database/clock.js';
import { JobScheduleStore } from './job-schedule.store.js';
import type { StoredJob } from './stored-job.js';
import { TakeOverStore } from './take-over.store.js';
import { BackfillService } from '../catch-up/backfill.service.js';
import { ClaimOrder } from '../runs/claim-order.js';
import { FollowedSchedules } from './followed-schedules.js';
import { OtherInstances } from './other-instances.service.js';
import { InstanceRegistration } from './instance-registration.service.js';
import { PollPace } from './poll-pace.js';
import { Rewinding } from './rewinding.service.js';
import { UnregisteredJobs } from './unregistered-jobs.service.js';

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
    private readonly backfills: BackfillService,
    private readonly cancellations: Cancellations,
    private readonly order: ClaimOrder,
    private readonly pace: PollPace,
    private readonly time: DatabaseTime,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'schedules', maxSleepMs: pace.longestMs });
    events.of('job.outdated').subscribe(({ jobName }) => this.lookAt(jobName));
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
    const { databaseNow, present, company, peers, backfilling, jobs, isOther, seenOn, ...asked } =
      await this.schedules.lookIn(this.presence.facts, this.seen, doubtful, this.cancellations.flags);
    this.time.observe(databaseNow, sentAt);
    this.cancellations.apply(asked);
    if (backfilling) this.backfills.wake();
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
    this.order.hear(peers);
    const instances = company.join(' ');
    await this.takeOverFrom(instances);
    await this.unregistered.look(instances);
    if (this.presence.takesPart) await this.others.lookWhenChanged(instances);
    return this.pace.changesMs;
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
