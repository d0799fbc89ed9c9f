import { SchedulerError } from './scheduler.error.js';

/** Something of a run was asked for after its end: what it wrote then might be written after the run is done. */
export class AfterRunError extends SchedulerError {
  /** @param end what had come before */
  constructor(what: string, run: { readonly jobName: string; readonly fireTime: Date }, end: 'handler' | 'completion' = 'handler') {
    const occurrence = `${run.jobName} of ${run.fireTime.toISOString()}`;
    super(
      end === 'handler'
        ? `${what} was called after the handler of ${occurrence} had ended. Await everything that the handler starts, so that it ends last.`
        : `${what} was called after ${occurrence} had been completed. What belongs to the run comes before its completion.`,
    );
  }
}
