import { SchedulerError } from './scheduler.error.js';

/** A job was to be made under a name that is taken. */
export class JobExistsError extends SchedulerError {
  constructor(readonly jobName: string, madeAtRunTime: boolean) {
    super(
      madeAtRunTime
        ? `There is a job "${jobName}" already: change it with JobRegistry.update, or remove it first.`
        : `There is a job "${jobName}" already, declared by code: give the new one another name.`,
    );
  }
}
