import { Inject, Injectable } from '@nestjs/common';
import { KnownJobs } from './known-jobs.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../options/tokens.js';
import {
  differingZones,
  zoneRules,
  type RulesOfZones,
  InstanceFactsStore,
  type OtherInstance,
} from './job-instance.store.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { DatabaseTime } from '../database/clock.js';
import { monotonicNow } from '../database/clock.js';

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
