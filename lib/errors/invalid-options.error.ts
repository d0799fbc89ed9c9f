import { SchedulerError } from './scheduler.error.js';

/** Options that cannot be used. All problems found are reported at once, one a line. */
export class InvalidOptionsError extends SchedulerError {
  /** Each says where it is and what is wrong; several errors can be joined into one by their problems. */
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
  }
}
