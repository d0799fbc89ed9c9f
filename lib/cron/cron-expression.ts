import { invalidCron } from '../errors/errors.js';
import { type DayFields, type DayRule, everFires, readDayRule } from './cron-days.js';
import {
  type CronField,
  type CronSource,
  DAY_OF_MONTH,
  DAY_OF_WEEK,
  HOUR,
  MINUTE,
  MONTH,
  readNumber,
  readRange,
  readStep,
  refused,
  SECOND,
  isSpreadByName,
  readHashed,
} from './cron-fields.js';

/**
 * What most jobs have alike, once: of thousands of expressions, lists of all minutes or days would be most of what they
 * take in memory.
 */
export class SharedValues<Value extends object> {
  private readonly known = new Map<string, Value>();

  /** @param most so many are kept; what comes then is kept by whoever has it */
  constructor(private readonly most = 1_000) {}

  /** The value that was made first for this key, which says all of it. */
  of(key: string, make: () => Value): Value {
    const first = this.known.get(key);
    if (first) return first;
    const value = make();
    if (this.known.size < this.most) this.known.set(key, value);
    return value;
  }
}

/** A cron expression, read and checked. Immutable, and without a time zone: it speaks of local dates and times only. */
export interface CronExpression {
  /** As it was written. */
  readonly expression: string;
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly days: DayFields;
  /**
   * Whether it names times of day rather than an interval: neither the minute nor the hour field begins with `*` (the
   * distinction Vixie cron makes at clock changes).
   */
  readonly fixed: boolean;
}

/** What reading an expression may need beside its text. */
interface CronExpressionOptions {
  /** Spreads `H`. An expression with `H` is refused without it. */
  readonly jobName?: string;
}

const ALIASES: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

const MAX_LENGTH = 1000;

const EXPRESSIONS = new SharedValues<CronExpression>();
const DAYS = new SharedValues<DayFields>();

/**
 * Reads five fields (minute, hour, day of month, month, day of week), six (a second before them) or an alias such as
 * `@daily`. Names, ranges (also `FRI-MON`), lists, steps, `?`, `L`, `L-3`, `15W`, `LW`, `5L`, `5#2` and `H` are known.
 *
 * @throws {InvalidScheduleError} for everything else, and for dates that never come (`0 0 30 2 *`).
 */
export function parseCronExpression(expression: string, options: CronExpressionOptions = {}): CronExpression {
  if (typeof expression !== 'string' || isSpreadByName(expression)) return read(expression, options);
  return EXPRESSIONS.of(expression, () => read(expression, options));
}

function read(expression: string, options: CronExpressionOptions): CronExpression {
  const source: CronSource = { expression, jobName: options.jobName };
  const [second, minute, hour, dayOfMonth, month, dayOfWeek] = splitFields(source);
  const seconds = readField(SECOND, second, source);
  const minutes = readField(MINUTE, minute, source);
  const hours = readField(HOUR, hour, source);
  const daysOfMonth = readField(DAY_OF_MONTH, dayOfMonth, source);
  const months = readField(MONTH, month, source);
  const daysOfWeek = readField(DAY_OF_WEEK, dayOfWeek, source);
  const either = !daysOfMonth.wildcard && !daysOfWeek.wildcard;
  const fields = {
    months: months.values,
    daysOfMonth: daysOfMonth.values,
    daysOfWeek: daysOfWeek.values,
    rulesOfMonth: daysOfMonth.rules,
    rulesOfWeek: daysOfWeek.rules,
    either,
  };
  const days = DAYS.of(JSON.stringify(fields), () => Object.freeze(fields));
  if (!everFires(days)) {
    throw invalidCron(expression, 'never fires, because no year has such a date');
  }
  return Object.freeze({
    expression,
    seconds: seconds.values,
    minutes: minutes.values,
    hours: hours.values,
    days,
    fixed: !minutes.wildcard && !hours.wildcard,
  });
}

type SixFields = [string, string, string, string, string, string];

function splitFields(source: CronSource): SixFields {
  const { expression } = source;
  if (typeof expression !== 'string') {
    throw invalidCron(String(expression), `a string is expected, not ${typeof expression}`);
  }
  if (expression.length > MAX_LENGTH) {
    const shown = `${expression.slice(0, 40)}…`;
    const problem = `${expression.length} characters are more than the ${MAX_LENGTH} allowed`;
    throw invalidCron(shown, problem);
  }
  const text = expandAlias(expression.trim(), source);
  const fields = text === '' ? [] : text.split(/\s+/);
  if (fields.length === 5) {
    fields.unshift('0');
  }
  if (fields.length !== 6) {
    throw invalidCron(
      expression,
      `has ${fields.length} ${fields.length === 1 ? 'field' : 'fields'}, but 5 are expected ` +
        '(minute, hour, day of month, month, day of week), or 6 with a second before them',
    );
  }
  return fields as SixFields;
}

function expandAlias(text: string, { expression }: CronSource): string {
  if (!text.startsWith('@')) {
    return text;
  }
  const alias = text.toLowerCase();
  if (!Object.hasOwn(ALIASES, alias)) {
    throw invalidCron(expression, `alias "${text}" is unknown; ${Object.keys(ALIASES).join(', ')} are known`);
  }
  return ALIASES[alias];
}

/** What one field of an expression allows. */
interface FieldValues {
  /** Ascending, without repeats; Sunday is 0. */
  readonly values: readonly number[];
  readonly rules: readonly DayRule[];
  /** Whether the field begins with `*` or `?`, which is what Vixie cron calls unrestricted. */
  readonly wildcard: boolean;
}

const VALUES = new SharedValues<readonly number[]>();
const RULES = new SharedValues<readonly DayRule[]>();

/** @throws {InvalidScheduleError} naming the field, the value and what was expected. */
function readField(field: CronField, text: string, source: CronSource): FieldValues {
  const values = new Set<number>();
  const rules: DayRule[] = [];
  for (const item of text.split(',')) {
    if (item === '') {
      throw refused(source, `${field.name} "${text}" has an empty list item`);
    }
    const rule = readDayRule(field, item, source);
    if (rule) {
      rules.push(rule);
    } else {
      for (const value of readHashed(field, item, source) ?? readItem(field, item, text, source)) {
        values.add(value);
      }
    }
  }
  const ascending = [...values].sort((a, b) => a - b);
  return Object.freeze({
    values: VALUES.of(ascending.join(), () => Object.freeze(ascending)),
    rules: RULES.of(JSON.stringify(rules), () => Object.freeze(rules)),
    wildcard: /^[*?]/.test(text),
  });
}

const ITEM = /^(\*|[a-z]+|\d+)(?:-([a-z]+|\d+))?(?:\/(\d+))?$/i;

function readItem(field: CronField, item: string, text: string, source: CronSource): readonly number[] {
  if (item === '?') {
    if (text !== '?' || (field !== DAY_OF_MONTH && field !== DAY_OF_WEEK)) {
      const allowed = 'which may only stand alone, as a day of month or day of week';
      throw refused(source, `${field.name} "${text}" has a ?, ${allowed}`);
    }
    return readRange(field, field.min, field.last, 1);
  }
  const match = ITEM.exec(item);
  if (!match || (match[1] === '*' && match[2] !== undefined)) {
    const numbers = `a number from ${field.min} to ${field.max}`;
    throw refused(source, `${field.name} "${item}" is not *, ${numbers}, a range or a step`);
  }
  const [, first, last, every] = match;
  const step = every === undefined ? 1 : readStep(field, every, source);
  if (first === '*') {
    return readRange(field, field.min, field.last, step);
  }
  const from = readNumber(field, first, source);
  if (last !== undefined) {
    return readWrapped(field, from, readNumber(field, last, source), step);
  }
  return every === undefined ? readRange(field, from, from, 1) : readWrapped(field, from, field.last, step);
}

/** `FRI-MON` and `22-2` go past the end of the field and on from its beginning; a step goes on counting there. */
function readWrapped(field: CronField, from: number, to: number, step: number): readonly number[] {
  if (from <= to) {
    return readRange(field, from, to, step);
  }
  if (from > field.last) {
    return readRange(field, field.min, to, step);
  }
  const size = field.last - field.min + 1;
  const restart = from + Math.ceil((field.last + 1 - from) / step) * step - size;
  const beginning = restart <= to ? readRange(field, restart, to, step) : [];
  return [...readRange(field, from, field.last, step), ...beginning];
}
