import { InvalidCronExpressionError } from '../../errors/invalid-cron-expression.error.js';
import { everFires, type DayFields } from './cron-days.js';
import { DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, SECOND, type CronSource } from './cron-fields.js';
import { isSpreadByName } from './cron-hash.js';
import { readField } from './cron-items.js';
import { SharedValues } from '../shared-values.js';

/** A cron expression, read and checked. Immutable, and without a time zone: it speaks of local dates and times only. */
export interface CronExpression {
  /** As it was written. */
  readonly expression: string;
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly days: DayFields;
  /**
   * Whether it names times of day rather than an interval: neither the minute nor the hour field begins with `*`
   * (the distinction Vixie cron makes at clock changes).
   */
  readonly fixed: boolean;
}

/** What reading an expression may need beside its text. */
export interface CronExpressionOptions {
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
 * @throws {InvalidCronExpressionError} for everything else, and for dates that never come (`0 0 30 2 *`).
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
  const fields = { months: months.values, daysOfMonth: daysOfMonth.values, daysOfWeek: daysOfWeek.values, rulesOfMonth: daysOfMonth.rules, rulesOfWeek: daysOfWeek.rules, either };
  const days = DAYS.of(JSON.stringify(fields), () => Object.freeze(fields));
  if (!everFires(days)) {
    throw new InvalidCronExpressionError(expression, 'never fires, because no year has such a date');
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
    throw new InvalidCronExpressionError(String(expression), `a string is expected, not ${typeof expression}`);
  }
  if (expression.length > MAX_LENGTH) {
    const shown = `${expression.slice(0, 40)}…`;
    const problem = `${expression.length} characters are more than the ${MAX_LENGTH} allowed`;
    throw new InvalidCronExpressionError(shown, problem);
  }
  const text = expandAlias(expression.trim(), source);
  const fields = text === '' ? [] : text.split(/\s+/);
  if (fields.length === 5) {
    fields.unshift('0');
  }
  if (fields.length !== 6) {
    throw new InvalidCronExpressionError(
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
    throw new InvalidCronExpressionError(
      expression,
      `alias "${text}" is unknown; ${Object.keys(ALIASES).join(', ')} are known`,
    );
  }
  return ALIASES[alias];
}
