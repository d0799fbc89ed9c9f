import { SchedulerError } from './scheduler.error.js';

/** What had come before: the end of the handler, or what the handler did to its run. */
export type AfterWhat = 'handler' | 'completion' | 'release';

/** Something of a run was asked for after its end: what it wrote then might be written after the run is done. */
export class AfterRunError extends SchedulerError {
  constructor(what: string, run: { readonly jobName: string; readonly fireTime: Date }, end: AfterWhat = 'handler') {
    super(`${what} was called after ${WORDS[end](`${run.jobName} of ${run.fireTime.toISOString()}`)}`);
  }
}

const WORDS: Record<AfterWhat, (occurrence: string) => string> = {
  handler: (occurrence) => `the handler of ${occurrence} had ended. Await everything that the handler starts, so that it ends last.`,
  completion: (occurrence) => `${occurrence} had been completed. What belongs to the run comes before its completion.`,
  release: (occurrence) => `the handler of ${occurrence} had given it up. What belongs to the attempt comes before its release.`,
};
