import { CronExpressionParser } from 'cron-parser';
import { invalidCron, InvalidScheduleError } from '../errors/errors.js';
import { createHash } from 'node:crypto';

/** What is being read, for error messages and for `H`. */
export interface CronSource {
  readonly expression: string;
  readonly jobName?: string;
}

/** One of the six fields of an expression. */
export interface CronField {
  readonly name: string;
  readonly key: 'second' | 'minute' | 'hour' | 'dayOfMonth' | 'month' | 'dayOfWeek';
  readonly min: number;
  /** The largest number that may be written. */
  readonly max: number;
  /** The end of `*` and `5/2`: `max`, except for the second Sunday (7) of the week. */
  readonly last: number;
  /** In the order of their numbers, from `min`. */
  readonly names: readonly string[];
}

export const SECOND: CronField = { name: 'second', key: 'second', min: 0, max: 59, last: 59, names: [] };
export const MINUTE: CronField = { name: 'minute', key: 'minute', min: 0, max: 59, last: 59, names: [] };
export const HOUR: CronField = { name: 'hour', key: 'hour', min: 0, max: 23, last: 23, names: [] };
export const DAY_OF_MONTH: CronField = {
  name: 'day of month',
  key: 'dayOfMonth',
  min: 1,
  max: 31,
  last: 31,
  names: [],
};
export const MONTH: CronField = {
  name: 'month',
  key: 'month',
  min: 1,
  max: 12,
  last: 12,
  names: [
    'january',
    'february',
    'march',
    'april',
    'may',
    'june',
    'july',
    'august',
    'september',
    'october',
    'november',
    'december',
  ],
};
export const DAY_OF_WEEK: CronField = {
  name: 'day of week',
  key: 'dayOfWeek',
  min: 0,
  max: 7,
  last: 6,
  names: ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'],
};

/** A number or a name, short or full, as a number within the field. */
export function readNumber(field: CronField, text: string, source: CronSource): number {
  if (/^\d+$/.test(text)) {
    const value = Number(text);
    if (value < field.min || value > field.max) {
      throw refused(source, `${field.name} ${text} is outside ${field.min}-${field.max}`);
    }
    return value;
  }
  const name = text.toLowerCase();
  const index = field.names.findIndex((full) => name === full || name === full.slice(0, 3));
  if (index < 0) {
    const names = field.names.length > 0 ? ` or a name such as ${field.names[0].slice(0, 3)}` : '';
    throw refused(source, `${field.name} "${text}" is not a number from ${field.min} to ${field.max}${names}`);
  }
  return field.min + index;
}

/** A step beyond the field is refused: in the minutes, 90 reads as every 90 minutes and would mean every hour. */
export function readStep(field: CronField, text: string, source: CronSource): number {
  const step = Number(text);
  if (step < 1 || step > field.max) {
    throw refused(source, `${field.name} step ${text} is outside 1-${field.max}`);
  }
  return step;
}

/** The values of `from-to/step` with plain numbers in ascending order, as `cron-parser` reads them. */
export function readRange(field: CronField, from: number, to: number, step: number): readonly number[] {
  const range = `${from}-${to}/${step}`;
  const known = RANGES[field.key];
  let values = known.get(range);
  if (!values) {
    const texts = { ...ANY, [field.key]: range };
    const parsed = CronExpressionParser.parse(Object.values(texts).join(' '), { currentDate: 0, tz: 'UTC' });
    const numbers = parsed.fields[field.key].values.map(Number);
    values = field === DAY_OF_WEEK ? numbers.map((day) => day % 7) : numbers;
    known.set(range, values);
  }
  return values;
}

const ANY = { second: '*', minute: '*', hour: '*', dayOfMonth: '*', month: '*', dayOfWeek: '*' };

const RANGES: Readonly<Record<CronField['key'], Map<string, readonly number[]>>> = {
  second: new Map(),
  minute: new Map(),
  hour: new Map(),
  dayOfMonth: new Map(),
  month: new Map(),
  dayOfWeek: new Map(),
};

/** An error about the expression being read. */
export function refused(source: CronSource, problem: string): InvalidScheduleError {
  return invalidCron(source.expression, problem);
}

const HASHED = /^h(?:\((\d+)-(\d+)\))?(?:\/(\d+))?$/i;

/** Every month has these, so that a job spread over a month runs in each of them (as in Jenkins). */
const LAST_COMMON_DAY = 28;

/**
 * The values of `H`, `H(0-29)`, `H/15` or `H(0-29)/10`, or null when the item is none of them. They depend on the job's
 * name and the field alone, so that every replica and every release agrees.
 */
export function readHashed(field: CronField, item: string, source: CronSource): readonly number[] | null {
  const match = HASHED.exec(item);
  if (!match) {
    return null;
  }
  if (!source.jobName) {
    throw refused(source, `${field.name} "${item}" needs the name of a job to be spread by: give jobName`);
  }
  const [, first, last, every] = match;
  const from = first === undefined ? field.min : readNumber(field, first, source);
  const to = last === undefined ? lastCommon(field) : readNumber(field, last, source);
  if (from > to) {
    throw refused(source, `${field.name} "${item}" goes down from ${from} to ${to}`);
  }
  const size = to - from + 1;
  const hash = hashOf(source.jobName, field);
  if (every === undefined) {
    const value = from + (hash % size);
    return readRange(field, value, value, 1);
  }
  const step = readStep(field, every, source);
  return readRange(field, from + (hash % Math.min(step, size)), to, step);
}

/** True when the fire times of the expression depend on its job's name. */
export function isSpreadByName(expression: string): boolean {
  return expression.split(/[\s,]+/).some((item) => HASHED.test(item));
}

function lastCommon(field: CronField): number {
  return field.key === 'dayOfMonth' ? LAST_COMMON_DAY : field.last;
}

/** Never to be changed: it would move every job that uses `H`. */
function hashOf(jobName: string, field: CronField): number {
  return createHash('sha256').update(`${jobName}\n${field.key}`).digest().readUInt32BE(0);
}
