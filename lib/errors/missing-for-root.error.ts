import { SchedulerError } from './scheduler.error.js';

/** The module is imported without its options: nothing would ever run. */
export class MissingForRootError extends SchedulerError {
  constructor() {
    super('DistributedSchedulerModule is imported as it is, and so schedules nothing: import DistributedSchedulerModule.forRoot().');
  }
}
