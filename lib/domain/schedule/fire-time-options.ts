import { isDate } from 'node:util/types';
import { InvalidOptionsError } from '../../errors/invalid-options.error.js';
import { unknownOption } from '../unknown-option.js';

/** What an option has to be, in words, and whether it is. */
interface Check {
  readonly expected: string;
  readonly holds: (given: unknown) => boolean;
}

const DATE: Check = { expected: 'a valid Date', holds: (given) => isDate(given) && Number.isFinite(given.getTime()) };
const COUNT: Check = { expected: 'a whole number, at least 0', holds: (given) => Number.isSafeInteger(given) && (given as number) >= 0 };

const CHECKS = {
  timeZone: optional({ expected: 'an IANA name such as "Europe/Berlin"', holds: (given) => typeof given === 'string' }),
  jobName: optional({ expected: 'the name of a job', holds: (given) => typeof given === 'string' && given !== '' }),
  from: DATE,
  to: DATE,
  before: DATE,
  count: COUNT,
  limit: optional({ ...COUNT, holds: (given) => given === Infinity || COUNT.holds(given) }),
} as const satisfies Record<string, Check>;

/**
 * Looks through what a function that computes fire times was given. `timeZone` and `jobName` are options of each.
 * @throws InvalidOptionsError with every problem
 */
export function checkFireTimeOptions(calledAs: string, expression: unknown, options: unknown, names: readonly (keyof typeof CHECKS)[]): void {
  const known = ['timeZone', 'jobName', ...names] as const;
  const given = typeof options === 'object' && options !== null ? (options as Readonly<Record<string, unknown>>) : null;
  const problems = [
    ...(typeof expression === 'string' ? [] : [`expected a cron expression such as "15 2 * * *", got ${inWords(expression)}`]),
    ...(given ? problemsOf(given, known) : [`options: expected an object with ${names.join(', ')}, got ${inWords(options)}`]),
  ];
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${calledAs}: ${problem}`));
}

function problemsOf(given: Readonly<Record<string, unknown>>, known: readonly (keyof typeof CHECKS)[]): string[] {
  const unknown = Object.keys(given).filter((name) => !(known as readonly string[]).includes(name));
  const wrong = known.filter((name) => !CHECKS[name].holds(given[name]));
  return [
    ...unknown.map((name) => unknownOption(name, known)),
    ...wrong.map((name) => `${name}: expected ${CHECKS[name].expected}, got ${inWords(given[name])}`),
  ];
}

function optional({ expected, holds }: Check): Check {
  return { expected, holds: (given) => given === undefined || holds(given) };
}

function inWords(given: unknown): string {
  if (typeof given === 'string') return JSON.stringify(given);
  return isDate(given) || typeof given !== 'object' || given === null ? String(given) : 'an object';
}
