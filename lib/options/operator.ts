import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { text } from './option-rules.js';

/** Who does something to a job, and why: kept with what was done. */
export interface Operator {
  /** A name or an address; at most 200 characters. */
  readonly by: string;
  /** At most 2000 characters. */
  readonly reason?: string;
}

/**
 * Reads who and why.
 * @param verb for people: `SchedulerService.pause`
 * @throws InvalidOptionsError with every problem
 */
export function readOperator(given: Operator | undefined, verb: string): { by: string; reason: string | null } {
  if (typeof given !== 'object' || given === null) throw new InvalidOptionsError([`${verb}: say who does it, as { by: 'name', reason: '…' }.`]);
  const by = text(200)(given.by);
  const reason = given.reason === undefined ? { value: null } : text(2_000)(given.reason);
  const problems = Object.entries({ by, reason }).flatMap(([name, reading]) => ('problem' in reading ? [`${verb}: ${name}: ${reading.problem}`] : []));
  if ('problem' in by || 'problem' in reason) throw new InvalidOptionsError(problems);
  return { by: by.value, reason: reason.value };
}
