import type { DatabaseTrouble } from './database-trouble.js';

/**
 * The base of every error this library throws on purpose: something a person has to act on.
 * What a healthy cluster does every minute (losing a claim, an occurrence that overlaps) is a value, never an error.
 */
export abstract class SchedulerError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** What loops do about a trouble, in its advice. */
const BY_ITSELF = /[;:] (once it is there )?the scheduler (tries again|goes on) by itself/;

/**
 * Its advice where the process ends with it: what a running scheduler does by itself, one that could not start does
 * not.
 */
export function adviceAtStart({ advice, passing }: DatabaseTrouble): string {
  const toDo = advice.replace(BY_ITSELF, '');
  return passing ? `${toDo} waitForDatabase says how long a start waits for that (by default not at all).` : toDo;
}

/** Options that cannot be used. All problems found are reported at once, one a line. */
export class InvalidOptionsError extends SchedulerError {
  /** Each says where it is and what is wrong; several errors can be joined into one by their problems. */
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
  }
}
