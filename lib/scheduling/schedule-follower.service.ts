import { Inject, Injectable } from '@nestjs/common';
import { KnownJobs, type RegisteredJob } from '../discovery/known-jobs.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../distributed-scheduler.tokens.js';
import { loopListener } from '../events/loop-listener.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { DatabaseTime } from '../runtime/database-time.js';
import { Loop } from '../runtime/loop.js';
import { monotonicNow } from '../runtime/monotonic.js';
import type { Presence } from '../store/job-instance.store.js';
import { JobInstanceStore } from '../store/job-instance.store.js';
import { JobScheduleStore } from '../store/job-schedule.store.js';
import type { StoredJob } from '../store/stored-job.js';
import { TakeOverStore } from '../store/take-over.store.js';
import { followedJob, isAsDeclared } from './followed-job.js';
import { JobTimeline } from './job-timeline.js';
import { Timelines } from './timelines.js';
import { UnregisteredJobs } from './unregistered-jobs.js';

/** An instance that has not looked in for so many polls is taken for gone. */
const ALIVE_POLLS = 4;

const LEAST_ALIVE_MS = 2_000;

/**
 * Keeps this instance's jobs as the database has them: one schedule for all replicas, whatever each one's code says. It
 * says that the instance is there, follows what has changed, and takes over what no other live instance declares any more.
 */
@Injectable()
export class ScheduleFollower {
  private readonly loop: Loop;
  /** Jobs that have another schedule, or another name, than the code here declares. */
  private readonly contested = new Map<string, StoredJob>();
  /** The revision of each job as it is followed here. */
  private readonly revisions = new Map<string, number>();
  /** Every change up to this revision has been looked at. */
  private seen = 0;
  private declaring = true;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
    private readonly known: KnownJobs,
    private readonly schedules: JobScheduleStore,
    private readonly takeOvers: TakeOverStore,
    private readonly instances: JobInstanceStore,
    private readonly unregistered: UnregisteredJobs,
    private readonly timelines: Timelines,
    private readonly time: DatabaseTime,
    private readonly events: SchedulerEvents,
  ) {
    this.loop = new Loop(() => this.follow(), {
      maxSleepMs: options.pollIntervalMs,
      ...loopListener(events, 'schedules'),
    });
  }

  /** Writes what the code declares, and starts each job's timeline where its occurrences are decided. */
  async declare(): Promise<void> {
    const sentAt = monotonicNow();
    const { databaseNow, jobs } = await this.schedules.declare(this.presence.jobs, this.options.enabled ? this.presence : null);
    this.time.observe(databaseNow, sentAt);
    this.takeAll(jobs);
    await this.takeOver();
    for (const stored of this.contested.values()) this.tellContest(stored);
    this.declaring = false;
  }

  start(): void {
    this.loop.start(this.options.pollIntervalMs);
  }

  async stop(): Promise<void> {
    await this.loop.stop();
  }

  /** Something was seen that has changed. */
  wake(): void {
    this.loop.wake();
  }

  /** This instance takes no more part: others need not wait until it is taken for gone. */
  async leave(): Promise<void> {
    if (this.options.enabled) await this.instances.leave(this.instanceId);
  }

  /** One pass. @returns milliseconds to the next */
  async follow(): Promise<number> {
    const sentAt = monotonicNow();
    const { databaseNow, present, company, jobs } = await this.schedules.lookIn(this.presence, this.seen);
    this.time.observe(databaseNow, sentAt);
    if (!present) await this.instances.announce(this.presence);
    this.takeAll(jobs);
    await this.takeOver();
    await this.unregistered.look(company);
    return this.options.pollIntervalMs;
  }

  private async takeOver(): Promise<void> {
    if (this.contested.size === 0) return;
    const jobs = [...this.contested.keys()].map((name) => this.known.declaredJob(name)!.definition);
    for (const stored of await this.takeOvers.takeOver(jobs, this.instanceId)) this.take(stored);
  }

  /** All that has changed since the last look. */
  private takeAll(jobs: readonly StoredJob[]): void {
    for (const stored of jobs) {
      this.take(stored);
      this.seen = Math.max(this.seen, stored.revision);
    }
  }

  private take(stored: StoredJob): void {
    const { name, revision } = stored;
    if (this.revisions.get(name) === revision) return;
    this.revisions.set(name, revision);
    const before = this.contested.get(name);
    const declared = this.known.declaredJob(name);
    if (declared && !stored.runTime && !isAsDeclared(stored, declared)) this.contested.set(name, stored);
    else this.contested.delete(name);
    const followed = followedJob(stored, declared, this.known.declared.handlers, this.options.jobDefaults);
    if (followed.kind === 'scheduled') return this.schedule(followed.job, stored, before);
    const scheduled = this.timelines.delete(name);
    if (followed.kind === 'waiting') this.known.put(followed.job);
    else if (!declared) this.known.drop(name);
    if (followed.kind === 'unreadable') this.events.emit({ type: 'job.unreadable', jobName: name, problem: followed.problem });
    else if (scheduled) this.events.emit({ type: 'job.unscheduled', jobName: name });
  }

  private schedule(job: RegisteredJob, stored: StoredJob, contested: StoredJob | undefined): void {
    const { expression, timeZone } = job.definition.schedule;
    const last = this.timelines.get(stored.name)?.job.schedule;
    const was = last ? inWords(last.expression, last.timeZone) : contested && wordsOf(contested);
    this.known.put(job);
    this.timelines.set(new JobTimeline(job.definition, stored.decidedUntil));
    const now = inWords(expression, timeZone);
    if (!this.declaring || (was && was !== now)) this.events.emit({ type: 'job.scheduled', jobName: stored.name, schedule: now, was: was ?? null });
  }

  private tellContest(stored: StoredJob): void {
    const { expression, timeZone } = this.known.declaredJob(stored.name)!.definition.schedule;
    this.events.emit({ type: 'job.contested', jobName: stored.name, declared: inWords(expression, timeZone), holds: wordsOf(stored) });
  }

  private get presence(): Presence {
    const { jobs, handlers } = this.known.declared;
    return {
      instanceId: this.instanceId,
      aliveMs: Math.max(LEAST_ALIVE_MS, ALIVE_POLLS * this.options.pollIntervalMs),
      jobs: jobs.map(({ definition }) => definition),
      handlers: [...handlers.keys()],
    };
  }
}

function wordsOf({ cron, timeZone, yieldsTo }: StoredJob): string {
  return yieldsTo === null ? inWords(cron, timeZone) : `the name "${yieldsTo}"`;
}

function inWords(expression: string, timeZone: string): string {
  return `"${expression}" (${timeZone})`;
}
