import { SchedulerError } from 'nestjs-distributed-cron';

/** Something that a person can put right: told in a sentence or two, without a stack trace. */
export class Problem extends Error {}

/** What to print about an error that ended the demo. Of an error that nobody foresaw, all there is. */
export function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const isForeseen = error instanceof Problem || error instanceof SchedulerError;
  return isForeseen ? error.message : (error.stack ?? error.message);
}
