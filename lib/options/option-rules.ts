import type { NestInterceptor, Type } from '@nestjs/common';
import { unknownOption } from '../errors/errors.js';
import { isAbsolute } from 'node:path';
import { pathToFileURL } from 'node:url';
import { formatDuration, parseDuration, type Duration } from './duration.js';

/** One line of a table of options: how it is read, and what it is when it is left out. */
export interface Option<T> {
  readonly rule: Rule<T>;
  readonly byDefault?: T;
}

/** Options by name. */
export type OptionTable = Readonly<Record<string, Option<any>>>;

/** What a table's options are once read. */
export type Values<Table extends OptionTable> = {
  -readonly [Name in keyof Table]: Table[Name] extends { readonly rule: Rule<infer T> } ? T : never;
};

/** The values of those options that have a default. */
type Defaults<Table extends OptionTable> = Pick<
  Values<Table>,
  { [Name in keyof Table]: Table[Name] extends { readonly byDefault: unknown } ? Name : never }[keyof Table]
>;

/** Those that were given, and the problems with the rest. `undefined` is the same as left out. */
export interface ReadOptions<Table extends OptionTable> {
  readonly values: Partial<Values<Table>>;
  readonly problems: readonly string[];
}

/** Reads an options object by its table. `path` stands before each name in a problem: `defaults.`. */
export function readOptions<Table extends OptionTable>(given: object, table: Table, path: string): ReadOptions<Table> {
  const values: Record<string, unknown> = {};
  const problems: string[] = [];
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(table, name)) problems.push(unknownOption(name, Object.keys(table), path));
    else if (value !== undefined) {
      const reading = table[name].rule(value);
      if ('value' in reading) values[name] = reading.value;
      else problems.push(`${path}${name}: ${reading.problem}`);
    }
  }
  return { values: values as Partial<Values<Table>>, problems };
}

/** What the options are when nobody gives them. */
export function defaultsOf<Table extends OptionTable>(table: Table): Defaults<Table> {
  const withDefault = Object.entries(table).filter(([, option]) => option.byDefault !== undefined);
  return Object.fromEntries(withDefault.map(([name, option]) => [name, option.byDefault])) as Defaults<Table>;
}

/** What became of a given value: usable, or the problems with it, in words that follow the option's name. */
export type Reading<T> = { readonly value: T } | { readonly problem: string };

/** Reads what a person gave for one option. */
export type Rule<T> = (given: unknown) => Reading<T>;

/** Limits, with the reason for each where it is not plain. */
export interface Bounds<T> {
  readonly atLeast?: T;
  readonly whyLeast?: string;
  readonly atMost?: T;
  readonly whyMost?: string;
}

/** Far inside what a timestamp holds when it is added to one. */
const TEN_YEARS_MS = 3_650 * 86_400_000;

/** A duration, read into milliseconds. */
export function duration(bounds: Bounds<Duration> = {}): Rule<number> {
  const limits = {
    ...bounds,
    atLeast: parseDuration(bounds.atLeast) ?? 0,
    atMost: parseDuration(bounds.atMost) ?? TEN_YEARS_MS,
  };
  return (given) => {
    const value = parseDuration(given);
    if (value === null) return expected('a duration such as 30000 or "30s"', given);
    return within(limits, value, formatDuration);
  };
}

/** A whole number within int4, which is what the tables store. */
export function integer(bounds: Bounds<number>): Rule<number> {
  const limits = { atLeast: 0, atMost: 2 ** 31 - 1, ...bounds };
  return (given) =>
    Number.isInteger(given) ? within(limits, given as number, String) : expected('a whole number', given);
}

/** true or false. */
export const flag: Rule<boolean> = (given) =>
  typeof given === 'boolean' ? { value: given } : expected('true or false', given);

/** A function. @param of what it is given, for people */
export function functionOf<T>(of: string): Rule<T> {
  return (given) => (typeof given === 'function' ? { value: given as T } : expected(`a function of ${of}`, given));
}

/** An interceptor as Nest knows it: an object, or its class. Its `ExecutionContext` has the type `'cron'`. */
export type InterceptorOption = NestInterceptor | Type<NestInterceptor>;

/** A list of interceptors: their classes, or objects. */
export const interceptorList: Rule<readonly InterceptorOption[]> = (given) => {
  const wrong = Array.isArray(given)
    ? given.find((one) => typeof one !== 'function' && typeof (one as NestInterceptor | null)?.intercept !== 'function')
    : given;
  return Array.isArray(given) && wrong === undefined
    ? { value: Object.freeze([...(given as InterceptorOption[])]) }
    : expected('a list of interceptors, classes or objects', wrong);
};

/** Anything: what is read as a whole, elsewhere. */
export const anything: Rule<unknown> = (given) => ({ value: given });

/** One of a few words. */
export function oneOf<T extends string>(...words: readonly T[]): Rule<T> {
  const list = words
    .map((word) => `"${word}"`)
    .join(', ')
    .replace(/, ([^,]*)$/, ' or $1');
  return (given) => (words.includes(given as T) ? { value: given as T } : expected(list, given));
}

/** A text for people and keys: not empty, without blanks around it, without control characters. */
export function text(most: number): Rule<string> {
  return (given) => {
    if (typeof given !== 'string' || given.trim() === '') return expected('a text', given);
    if (given !== given.trim()) return expected('a text without blanks around it', given);
    if (/\p{Cc}/u.test(given)) return expected('a text without control characters', given);
    // PostgreSQL would keep another text than was given.
    if (/\p{Cs}/u.test(given)) return expected('a text without halves of characters', given);
    // Characters as PostgreSQL counts them.
    const length = [...given].length;
    return length <= most ? { value: given } : { problem: `expected at most ${most} characters, got ${length}` };
  };
}

/** One name or a list of them, each as a job's name is read. */
export const names: Rule<readonly string[]> = (given) => {
  const list: unknown[] = Array.isArray(given) ? given : [given];
  const readings = list.map(text(200));
  const problem = readings.find((reading) => 'problem' in reading);
  return problem ?? { value: readings.flatMap((reading) => ('value' in reading ? [reading.value] : [])) };
};

/**
 * What PostgreSQL takes as the name of a schema, so that it can stand between double quotes as it is; TypeORM splits it
 * at dots.
 */
export const schemaName: Rule<string> = (given) => {
  const usable =
    typeof given === 'string' &&
    given !== '' &&
    given === given.trim() &&
    Buffer.byteLength(given) <= 63 &&
    !/["'.\p{Cc}]/u.test(given);
  return usable
    ? { value: given }
    : expected('the name of a schema (1 to 63 bytes, no quotes, dots, control characters or blanks around it)', given);
};

/** A file, read into its URL. */
export const fileUrl: Rule<URL> = (given) => {
  const wanted = (): { readonly problem: string } => expected('an absolute path or a file: URL', given);
  if (typeof given !== 'string' && !(given instanceof URL)) return wanted();
  if (typeof given === 'string' && isAbsolute(given)) return { value: pathToFileURL(given) };
  const url = URL.canParse(given.toString()) ? new URL(given.toString()) : null;
  return url?.protocol === 'file:' ? { value: url } : wanted();
};

/** The sentence of a value of the wrong kind. */
export function expected(what: string, given: unknown): { readonly problem: string } {
  return { problem: `expected ${what}, got ${describe(given)}` };
}

function within(
  limits: Bounds<number> & { atLeast: number; atMost: number },
  value: number,
  format: (value: number) => string,
): Reading<number> {
  const { atLeast, whyLeast, atMost, whyMost } = limits;
  if (atLeast <= value && value <= atMost) return { value };
  const [limit, why] =
    value < atLeast ? [`at least ${format(atLeast)}`, whyLeast] : [`at most ${format(atMost)}`, whyMost];
  return { problem: `expected ${limit}${why ? ` (${why})` : ''}, got ${format(value)}` };
}

function describe(given: unknown): string {
  if (typeof given === 'string') return JSON.stringify(given.length > 80 ? `${given.slice(0, 80)}…` : given);
  if (typeof given === 'function') return 'a function';
  if (Array.isArray(given)) return 'an array';
  return typeof given === 'object' && given !== null ? 'an object' : String(given);
}
