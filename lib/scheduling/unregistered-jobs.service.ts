import { Injectable } from '@nestjs/common';
import { KnownJobs } from '../discovery/known-jobs.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import { monotonicNow } from '../runtime/monotonic.js';
import { JobInstanceStore } from '../store/job-instance.store.js';

/** How often runs of unregistered jobs are looked at, in milliseconds. */
const REAP_EVERY_MS = 60_000;

/** Watches for jobs that are in the database and that no live instance declares any more: removed, or renamed. */
@Injectable()
export class UnregisteredJobs {
  private names: readonly string[] = [];
  private lastCompany = '';
  private lookedAt = '';
  private reapAt = 0;

  constructor(
    private readonly instances: JobInstanceStore,
    private readonly known: KnownJobs,
    private readonly events: SchedulerEvents,
  ) {}

  /**
   * Looks when the instances are others than before, and have been the same for two looks: in a deploy they come and go.
   * @param company changes with each instance that comes or goes
   */
  async look(company: string): Promise<void> {
    const settled = company === this.lastCompany;
    this.lastCompany = company;
    if (settled && company !== this.lookedAt) {
      await this.find();
      this.lookedAt = company;
    }
    if (this.names.length === 0 || monotonicNow() < this.reapAt) return;
    this.reapAt = monotonicNow() + REAP_EVERY_MS;
    await this.instances.orphanRunsOf(this.names);
  }

  private async find(): Promise<void> {
    const before = new Set(this.names);
    const found = await this.instances.unregistered();
    this.names = found.map(({ name }) => name);
    const appeared = found.filter(({ name }) => !before.has(name));
    if (appeared.length === 0) return;
    this.reapAt = 0;
    this.events.emit({ type: 'job.unregistered', jobs: appeared.map((job) => ({ jobName: job.name, perhapsNow: this.sameSchedule(job) })) });
  }

  /** A renamed job mostly keeps its schedule. */
  private sameSchedule({ cron, timeZone }: { cron: string; timeZone: string }): string | null {
    const same = this.known.list().filter(({ definition: { schedule } }) => schedule.expression === cron && schedule.timeZone === timeZone);
    return same.length === 1 ? same[0]!.definition.name : null;
  }
}
