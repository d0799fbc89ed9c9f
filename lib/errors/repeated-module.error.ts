import { SchedulerError } from './scheduler.error.js';

/** Two schedulers in one application would run every job's ticker twice. */
export class RepeatedModuleError extends SchedulerError {
  constructor(importedBy: readonly string[]) {
    super(
      `DistributedSchedulerModule.forRoot() is imported ${importedBy.length} times (by ${importedBy.join(' and by ')}). ` +
        'Import it once, in the root module: its services are global.',
    );
  }
}
