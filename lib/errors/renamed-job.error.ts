import { SchedulerError } from './scheduler.error.js';

/** A job was named whose occurrences are decided under another name. */
export class RenamedJobError extends SchedulerError {
  constructor(
    readonly jobName: string,
    /** The name to use. */
    readonly yieldsTo: string,
  ) {
    super(`Job "${jobName}" is decided under the name "${yieldsTo}": name that one.`);
  }
}
