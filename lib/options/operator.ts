import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { readOperationOptions } from './operation-options.js';
import { text } from './option-rules.js';
import type { OptionTable } from './read-options.js';

/** Who does something to a job, and why: kept with what was done. */
export interface Operator {
  /** A name or an address; at most 200 characters. */
  readonly by: string;
  /** At most 2000 characters. */
  readonly reason?: string;
}

const OPERATOR = { by: { rule: text(200) }, reason: { rule: text(2_000) } } as const satisfies Record<keyof Operator, OptionTable[string]>;

/**
 * Reads who and why.
 * @param verb for people: `SchedulerService.pause`
 * @throws InvalidOptionsError with every problem
 */
export function readOperator(given: Operator | undefined, verb: string): { by: string; reason: string | null } {
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
  if (!isObject) throw new InvalidOptionsError([`${verb}: say who does it, as { by: 'name', reason: '…' }.`]);
  // Left out, it is told as what is wrong with it, beside everything else.
  const { by, reason = null } = readOperationOptions({ ...given, by: given.by ?? null }, OPERATOR, verb);
  return { by: by!, reason };
}
