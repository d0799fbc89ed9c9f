import type { DueOccurrence } from './claim-candidates.js';

/**
 * What some of a batch's candidates have to be judged by. A rule that none of them has is left out of the statement: for a
 * batch that only may not overlap it is a third of the size, and asks the history once instead of six times.
 */
export interface BatchRules {
  /** Only so many runs of a job at a time. */
  readonly limits: boolean;
  /** They may wait in line. */
  readonly queues: boolean;
  readonly replaces: boolean;
  readonly groups: boolean;
  readonly flags: boolean;
  /** Several occurrences of one job. */
  readonly repeats: boolean;
}

export function rulesOf(due: readonly DueOccurrence[]): BatchRules {
  return {
    limits: due.some(({ parallel }) => parallel !== null),
    queues: due.some(({ overlap }) => overlap === 'queue'),
    replaces: due.some(({ overlap }) => overlap === 'replace'),
    groups: due.some(({ group }) => group),
    flags: due.some(({ flag }) => flag),
    repeats: new Set(due.map(({ jobName }) => jobName)).size < due.length,
  };
}

/** A name for the statement that has just these rules, short enough for a prepared one. */
export function nameOfRules(rules: BatchRules): string {
  return `insert_due ${Object.values(rules).map(Number).join('')}`;
}
