import { SchedulerError } from './scheduler.error.js';

/** Something of a run was asked for after its handler had ended: what it wrote then might be written after the run is done. */
export class AfterRunError extends SchedulerError {
  constructor(what: string, run: { readonly jobName: string; readonly fireTime: Date }) {
    super(
      `${what} was called after the handler of ${run.jobName} of ${run.fireTime.toISOString()} had ended. ` +
        'Await everything that the handler starts, so that it ends last.',
    );
  }
}
