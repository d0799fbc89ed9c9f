import type { DatabaseTrouble } from '../domain/database-trouble.js';

/** What loops do about a trouble, in its advice. */
const BY_ITSELF = /[;:] (once it is there )?the scheduler (tries again|goes on) by itself/;

/** Its advice where the process ends with it: what a running scheduler does by itself, one that could not start does not. */
export function adviceAtStart({ advice, passing }: DatabaseTrouble): string {
  const toDo = advice.replace(BY_ITSELF, '');
  return passing ? `${toDo} waitForDatabase says how long a start waits for that (by default not at all).` : toDo;
}
