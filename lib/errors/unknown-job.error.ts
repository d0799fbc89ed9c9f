import { SchedulerError } from './scheduler.error.js';

/** A job was named that is not there, or that the named operation can't change. */
export class UnknownJobError extends SchedulerError {
  constructor(readonly jobName: string, why: 'missing' | 'declared by code' | 'made at run time') {
    super(
      why === 'missing'
        ? `There is no job "${jobName}".`
        : why === 'made at run time'
        ? `Job "${jobName}" was made at run time: change it with JobRegistry.update.`
        : `Job "${jobName}" is declared by code: change its decorator, or pause it; only jobs made with JobRegistry.add can be changed here.`,
    );
  }
}
