import { Injectable } from '@nestjs/common';
import { KnownJobs } from './known-jobs.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { JobInstanceStore, type UnregisteredJob } from './job-instance.store.js';

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
