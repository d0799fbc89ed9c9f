import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { expected, type Rule } from './option-rules.js';
import { problemsOfData } from './run-time-job.js';

/** Reads one value that an operator gave. @throws InvalidOptionsError that begins with `what` */
export function given<T>(value: unknown, rule: Rule<T>, what: string): T {
  const reading = rule(value);
  if ('problem' in reading) throw new InvalidOptionsError([`${what}: ${reading.problem}`]);
  return reading.value;
}

/** A job's name as it may be stored: what is none is refused before the database is asked. */
export function jobNameOf(value: unknown, verb: string): string {
  return given(value, knownAs, `${verb}: jobName`);
}

/** A Date within what a timestamp holds. */
export const instant: Rule<Date> = (value) =>
  value instanceof Date && Math.abs(value.getTime()) < 8e15 ? { value } : expected('a Date', value instanceof Date ? 'an invalid Date' : value);

/** A job's name, whatever it is: nothing but what cannot be stored is refused. */
export const knownAs: Rule<string> = (value) => (typeof value === 'string' && value !== '' && !value.includes('\0') ? { value } : expected('the name of a job', value));

/** What JSON can hold, and PostgreSQL store. */
export const storable: Rule<unknown> = (value) => {
  const [problem] = problemsOfData(value);
  return problem === undefined ? { value } : { problem: problem.replace(/^data: /, '') };
};
