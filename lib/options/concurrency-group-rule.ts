import type { ConcurrencyGroup } from '../domain/job-definition.js';
import { expected, integer, text, type Rule } from './option-rules.js';
import { readOptions } from './read-options.js';

const PARTS = { name: { rule: text(200) }, limit: { rule: integer({ atLeast: 1 }) } };

/** A name and a limit, both given. */
export const concurrencyGroup: Rule<ConcurrencyGroup> = (given) => {
  const example = '{ name, limit }, as in { name: "exports", limit: 2 }';
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return expected(example, given);
  const { values, problems } = readOptions(given, PARTS, '');
  if (problems.length > 0) return { problem: problems.join('; ') };
  const { name, limit } = values;
  return name === undefined || limit === undefined ? { problem: `expected ${example}` } : { value: Object.freeze({ name, limit }) };
};
