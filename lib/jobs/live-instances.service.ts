import { Inject, Injectable } from '@nestjs/common';
import { KnownJobs } from './known-jobs.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../options/tokens.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { monotonicNow, DatabaseTime } from '../database/clock.js';
import {
  JobInstanceStore,
  type Presence,
  differingZones,
  zoneRules,
  type RulesOfZones,
  InstanceFactsStore,
  type OtherInstance,
  type UnregisteredJob,
} from './job-instance.store.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';

/** An instance that has not looked in for so many polls is taken for gone. */
const ALIVE_POLLS = 6;

const LEAST_ALIVE_MS = 2_000;

/** What this instance says about itself: that it is there, and what its code declares. */
@Injectable()
export class InstanceRegistration {
  /** Monotonic time. */
  private takesOverFrom = 0;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
    private readonly known: KnownJobs,
    private readonly instances: JobInstanceStore,
  ) {}

  /** False: the instance claims nothing, and others need not know of it. */
  get takesPart(): boolean {
    return this.options.enabled;
  }

  get facts(): Presence {
    const { jobs, handlers } = this.known.declared;
    return {
      instanceId: this.instanceId,
      aliveMs: Math.max(LEAST_ALIVE_MS, ALIVE_POLLS * this.options.pollIntervalMs),
      jobs: jobs.map(({ definition }) => definition),
      handlers: [...handlers.keys()],
    };
  }

  /** False for a while after it, or all, may have been away. */
  get mayTakeOver(): boolean {
    return monotonicNow() >= this.takesOverFrom;
  }

  /** It was taken for gone. */
  async announceAgain(): Promise<void> {
    await this.instances.announce(this.facts);
    this.giveOthersTime();
  }

  /**
   * Perhaps all were taken for gone, because the database was away: those that are not back yet are given the time to
   * be, or the first one would take over from live ones.
   */
  giveOthersTime(): void {
    this.takesOverFrom = monotonicNow() + this.facts.aliveMs;
  }

  /** The instance takes no more part: others need not wait until it is taken for gone. */
  async leave(): Promise<void> {
    if (this.takesPart) await this.instances.leave(this.instanceId);
  }
}

/** An instance that is silent for so long, in milliseconds, is of a release that says nothing. */
const HAS_SAID_AFTER_MS = 60_000;

/**
 * Tells of live instances that cannot be replicas of this one, although they take part with it: those of another
 * application that has the same jobs, and those whose time-zone data give other fire times. Each is told once.
 */
@Injectable()
export class OtherInstances {
  private readonly told = new Set<string>();
  private lookedAt = '';
  /** Monotonic time. */
  private lookUntil = 0;
  /** Of the others that were there, one had not said yet what it is. */
  private someAreSilent = false;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
    private readonly known: KnownJobs,
    private readonly store: InstanceFactsStore,
    private readonly time: DatabaseTime,
    private readonly events: SchedulerEvents,
  ) {}

  /**
   * Looks when the instances are others than before, and again as long as one of them has just started: it is there a
   * moment before it says what it is.
   * @param company changes with each instance that comes or goes
   */
  async lookWhenChanged(company: string): Promise<void> {
    if (company !== this.lookedAt) this.lookUntil = monotonicNow() + HAS_SAID_AFTER_MS;
    else if (!this.someAreSilent || monotonicNow() > this.lookUntil) return;
    await this.look();
    this.lookedAt = company;
  }

  /** Says what this instance is, and looks at what the others are. */
  async look(): Promise<void> {
    const { jobs, handlers } = this.known.declared;
    const { application } = this.options;
    const { tz = null, icu = null } = process.versions as Partial<Record<string, string>>;
    const zones = this.zones();
    const names = { jobs: jobs.map(({ definition }) => definition.name), handlers: [...handlers.keys()] };
    const others = await this.store.exchange(this.instanceId, { application, tz, icu, zones }, names);
    this.someAreSilent = others.some((other) => other.zones === null);
    for (const other of others) {
      this.compareJobs(other);
      this.compareZones(other, zones, tz);
    }
  }

  private compareJobs({ application: other, jobs, handlers }: OtherInstance): void {
    const { application } = this.options;
    if (application === null || other === null || jobs.length + handlers.length === 0) return;
    if (this.isNew('jobs', other, jobs, handlers))
      this.events.emit({ type: 'jobs.shared', application, other, jobs, handlers });
  }

  private compareZones({ id, tz: otherTz, zones: theirs }: OtherInstance, own: RulesOfZones, tz: string | null): void {
    const zones = differingZones(own, theirs ?? {});
    if (zones.length > 0 && this.isNew('zones', otherTz, zones))
      this.events.emit({ type: 'zones.differ', zones, tz, other: id, otherTz });
  }

  /** Of the zones that jobs are in here, by the schedules that hold. */
  private zones(): RulesOfZones {
    const names = new Set(this.known.list().map(({ definition }) => definition.schedule.timeZone));
    return Object.fromEntries([...names].map((zone) => [zone, zoneRules(zone, this.time.now())]));
  }

  private isNew(...fact: unknown[]): boolean {
    const key = JSON.stringify(fact);
    const fresh = !this.told.has(key);
    this.told.add(key);
    return fresh;
  }
}

/** Watches for jobs that are in the database and that no live instance declares any more: removed, or renamed. */
@Injectable()
export class UnregisteredJobs {
  private lastCompany = '';
  private lookedAt = '';

  constructor(
    private readonly instances: JobInstanceStore,
    private readonly known: KnownJobs,
    private readonly events: SchedulerEvents,
  ) {}

  /**
   * Looks when the instances are others than before, and have been the same for two looks: in a deploy they come and
   * go.
   * @param company changes with each instance that comes or goes
   */
  async look(company: string): Promise<void> {
    const settled = company === this.lastCompany;
    this.lastCompany = company;
    if (settled && company !== this.lookedAt) {
      await this.find();
      this.lookedAt = company;
    }
  }

  private async find(): Promise<void> {
    const before = new Set(this.known.unregistered);
    const found = (await this.instances.unregistered()).filter(({ name }) => !this.isFormerName(name));
    this.known.unregistered = found.map(({ name }) => name);
    const appeared = found.filter(({ name }) => !before.has(name));
    if (appeared.length === 0) return;
    const jobs = appeared.map((job) => ({
      jobName: job.name,
      perhapsNow: this.sameSchedule(job),
      missingHandler: job.handler,
    }));
    this.events.emit({ type: 'job.unregistered', jobs });
  }

  /** Its runs are finished here, and it is taken over if it was not yet. */
  private isFormerName(name: string): boolean {
    return this.known.declared.jobs.some(({ definition }) => definition.previously.includes(name));
  }

  /** A renamed job mostly keeps its schedule. One that says what it was called before is none of those that do not. */
  private sameSchedule({ cron, timeZone, handler }: UnregisteredJob): string | null {
    if (handler !== null) return null;
    const same = this.known.declared.jobs.filter(({ definition: { schedule, previously } }) => {
      return previously.length === 0 && schedule.expression === cron && schedule.timeZone === timeZone;
    });
    return same.length === 1 ? same[0]!.definition.name : null;
  }
}
