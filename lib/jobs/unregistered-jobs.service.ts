import { Injectable } from '@nestjs/common';
import { KnownJobs } from './known-jobs.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { RefusedData } from '../runs/refused-data.js';
import { tellReaped } from '../runs/tell-reaped.js';
import { monotonicNow } from '../database/clock.js';
import { ReapingRepository, type RefusedRun } from '../runs/reaping.repository.js';
import { runId } from '../options/run.js';
import { JobInstanceStore, type UnregisteredJob } from './job-instance.store.js';

/**
 * How often runs are looked at that no live instance could start, in milliseconds; another may know their jobs, and
 * reap them.
 */
const REAP_EVERY_MS = 10_000;

/** Watches for jobs that are in the database and that no live instance declares any more: removed, or renamed. */
@Injectable()
export class UnregisteredJobs {
  private names: readonly string[] = [];
  private lastCompany = '';
  private lookedAt = '';
  private reapAt = 0;
  private readonly refused: RefusedData;

  constructor(
    private readonly instances: JobInstanceStore,
    private readonly known: KnownJobs,
    private readonly events: SchedulerEvents,
    private readonly reaper: ReapingRepository,
  ) {
    this.refused = new RefusedData(events);
  }

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

  /** Somebody's lease has run out, and the job is not known here: perhaps nobody knows it. */
  async reapStrays(): Promise<void> {
    if (monotonicNow() < this.reapAt) return;
    this.reapAt = monotonicNow() + REAP_EVERY_MS;
    const refused = (run: RefusedRun) => this.refused.tell('reap', runId(run), run, run.problem);
    for (const run of await this.reaper.orphanRunsOf(this.names, refused, this.refused.resting('reap').runs)) {
      this.refused.accepted('reap', runId(run));
      tellReaped(this.events, run);
    }
  }

  private async find(): Promise<void> {
    const before = new Set(this.names);
    const found = (await this.instances.unregistered()).filter(({ name }) => !this.isFormerName(name));
    this.names = found.map(({ name }) => name);
    const appeared = found.filter(({ name }) => !before.has(name));
    if (appeared.length === 0) return;
    this.reapAt = 0;
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
