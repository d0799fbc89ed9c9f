import { readDayRule, type DayRule } from './cron-days.js';
import {
  DAY_OF_MONTH,
  DAY_OF_WEEK,
  readNumber,
  readRange,
  readStep,
  refused,
  type CronField,
  type CronSource,
} from './cron-fields.js';
import { readHashed } from './cron-hash.js';
import { SharedValues } from '../shared-values.js';

/** What one field of an expression allows. */
export interface FieldValues {
  /** Ascending, without repeats; Sunday is 0. */
  readonly values: readonly number[];
  readonly rules: readonly DayRule[];
  /** Whether the field begins with `*` or `?`, which is what Vixie cron calls unrestricted. */
  readonly wildcard: boolean;
}

const VALUES = new SharedValues<readonly number[]>();
const RULES = new SharedValues<readonly DayRule[]>();

/** @throws {InvalidCronExpressionError} naming the field, the value and what was expected. */
export function readField(field: CronField, text: string, source: CronSource): FieldValues {
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
