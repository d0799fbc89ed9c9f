import { parseDuration } from '../domain/duration.js';
import type { Backoff, BackoffFunction } from '../domain/job-definition.js';
import { duration, expected, type Rule } from './option-rules.js';
import { readOptions } from './read-options.js';

/** The longest wait of a growing backoff that does not name its own `max`. */
const LONGEST_GROWN_MS = 600_000;

const FORMS = { delay: { rule: duration({ atLeast: 1 }) }, max: { rule: duration({ atLeast: 1 }) } };

/** Every form of `BackoffOptions`. */
export const backoff: Rule<Backoff> = (given) => {
  if (typeof given === 'function') return { value: Object.freeze({ kind: 'function', delay: given as BackoffFunction }) };
  if (parseDuration(given) !== null) {
    const delay = duration()(given);
    return 'value' in delay ? { value: Object.freeze({ kind: 'fixed', delayMs: delay.value }) } : delay;
  }
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    return expected('a duration, { delay, max } or a function', given);
  }
  const { values, problems } = readOptions(given, FORMS, '');
  if (problems.length > 0) return { problem: problems.join('; ') };
  if (values.delay === undefined) return { problem: 'expected a delay, as in { delay: "5s", max: "10m" }' };
  const maxMs = values.max ?? Math.max(values.delay, LONGEST_GROWN_MS);
  if (maxMs < values.delay) return { problem: 'expected max to be at least delay' };
  return { value: Object.freeze({ kind: 'exponential', delayMs: values.delay, maxMs }) };
};
