import { SchedulerError } from './scheduler.error.js';

const WHY = {
  missing: (name: string) => `There is no job "${name}".`,
  'declared by code': (name: string) =>
    `Job "${name}" is declared by code: change its decorator, or pause it; only jobs made with JobRegistry.add can be changed here.`,
  'made at run time': (name: string) => `Job "${name}" was made at run time: change it with JobRegistry.update.`,
};

/** A job was named that is not there, or that the named operation can't change. */
export class UnknownJobError extends SchedulerError {
  constructor(
    readonly jobName: string,
    why: keyof typeof WHY,
  ) {
    super(WHY[why](jobName));
  }
}
