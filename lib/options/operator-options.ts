import { InvalidOptionsError } from '../errors/errors.js';
import {
  expected,
  type Rule,
  text,
  type OptionTable,
  readOptions,
  type ReadOptions,
  type Values,
} from './option-rules.js';
import { problemsOfData } from './run-time-job.js';

/**
 * Reads the options of an operator's verb: one that is misspelt, and left out by that, would do something else than was
 * asked.
 * @param what for people: `SchedulerService.pause`
 * @throws InvalidOptionsError with every problem
 */
export function readOperationOptions<Table extends OptionTable>(
  given: unknown,
  table: Table,
  what: string,
): Partial<Values<Table>> {
  const { values, problems } = readObject(given, table);
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${what}: ${problem}`));
  return values;
}

/** As `readOptions`, of what may be no object at all; nothing is left out by itself but `undefined`. */
export function readObject<Table extends OptionTable>(given: unknown, table: Table): ReadOptions<Table> {
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return readOptions(given, table, '');
  return {
    values: {},
    problems: given === undefined ? [] : [expected(`an object with ${Object.keys(table).join(', ')}`, given).problem],
  };
}

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
  value instanceof Date && Math.abs(value.getTime()) < 8e15
    ? { value }
    : expected('a Date', value instanceof Date ? 'an invalid Date' : value);

/** A job's name, whatever it is: nothing but what cannot be stored is refused. */
export const knownAs: Rule<string> = (value) =>
  typeof value === 'string' && value !== '' && !value.includes('\0') ? { value } : expected('the name of a job', value);

/** What JSON can hold, and PostgreSQL store. */
export const storable: Rule<unknown> = (value) => {
  const [problem] = problemsOfData(value);
  return problem === undefined ? { value } : { problem: problem.replace(/^data: /, '') };
};

/** Who does something to a job, and why: kept with what was done. */
export interface Operator {
  /** A name or an address; at most 200 characters. */
  readonly by: string;
  /** At most 2000 characters. */
  readonly reason?: string;
}

const OPERATOR = { by: { rule: text(200) }, reason: { rule: text(2_000) } } as const satisfies Record<
  keyof Operator,
  OptionTable[string]
>;

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
