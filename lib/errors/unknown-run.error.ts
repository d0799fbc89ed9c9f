import { SchedulerError } from './scheduler.error.js';

/** An occurrence was named that has no row. */
export class UnknownRunError extends SchedulerError {
  constructor(jobName: string, fireTime: Date) {
    super(`There is no run of "${jobName}" at ${fireTime.toISOString()}: a run is named by its job and its exact fire time, see job_runs.`);
  }
}
