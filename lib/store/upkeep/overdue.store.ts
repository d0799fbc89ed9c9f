import type { SchedulerDatabase } from '../scheduler-database.js';

/** A job that says how often it should succeed. Milliseconds. */
export interface ExpectedJob {
  readonly name: string;
  readonly withinMs: number;
  /** How old an occurrence may be that is caught up. */
  readonly catchUpWindowMs: number;
}

/** When a job's success is overdue. */
export interface SuccessOutlook {
  readonly jobName: string;
  readonly lastSuccessAt: Date | null;
  /** Milliseconds from now; not more than zero when it is. */
  readonly overdueInMs: number;
}

/** Looks when jobs last succeeded. */
export class OverdueStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** A job that is held back is not waited for. What was done under a former name counts. */
  async outlook(jobs: readonly ExpectedJob[]): Promise<SuccessOutlook[]> {
    const rows = await this.database.call<{ name: string; success_at: Date | null; overdue_in_ms: number }>('job_success_outlook_1', [
      jobs.map(({ name }) => name),
      jobs.map(({ withinMs }) => withinMs),
      jobs.map(({ catchUpWindowMs }) => catchUpWindowMs),
    ]);
    return rows.map((row) => ({ jobName: row.name, lastSuccessAt: row.success_at, overdueInMs: row.overdue_in_ms }));
  }
}
