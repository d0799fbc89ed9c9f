import { firingIn, clockChangesOf, type ClockChange } from './clock-changes.js';
import { countMatches, firstMatch, lastMatch } from './cron-matches.js';
import type { CronExpression } from './cron-expression.js';
import type { OffsetPeriod, TimeZone } from './time-zone.js';
import { timeZoneWarning } from './zone-names.js';

/**
 * One set of fire times: it depends on the expression and the zone alone. All instants are epoch milliseconds of whole
 * seconds; what is asked with may have any milliseconds.
 */
export interface Schedule {
  /** As it was written. */
  readonly expression: string;
  /** The IANA name, in the spelling of the tz database. */
  readonly timeZone: string;
  /**
   * What `startAt`, `endAt` and `exclude` leave out, and `trigger`, as text that is the same for the same; null for
   * nothing.
   */
  readonly calendar: string | null;
  /** Its occurrences are delivered from outside: its fire times are those that may be. */
  readonly isExternal: boolean;
  /** What its owner should be told at start-up; empty for most. */
  readonly warnings: readonly string[];
  /** The first fire time strictly after an instant. Null past the end of time. */
  nextAfter(epochMs: number): number | null;
  /** The last fire time strictly before an instant, or null. */
  previousBefore(epochMs: number): number | null;
  /** Every fire time after `fromMs` up to and including `toMs`, ascending, at most `limit`. */
  between(fromMs: number, toMs: number, limit?: number): number[];
  /** How many fire times {@link between} has without its limit, without going through them. */
  countBetween(fromMs: number, toMs: number): number;
  /** The clock changes after `fromMs` up to `toMs`, at most a year later, that move, double or skip a fire time. */
  clockChanges(fromMs: number, toMs: number): ClockChange[];
}

const NO_WARNINGS: readonly string[] = Object.freeze([]);

/** More than any difference between two offsets. */
const TWO_DAYS_MS = 2 * 86_400_000;

const END_OF_TIME_MS = 8.64e15;

/** The fire times of an expression by the clock of a zone. */
export class ZonedSchedule implements Schedule {
  readonly expression: string;
  readonly timeZone: string;
  readonly calendar = null;
  readonly isExternal = false;
  readonly warnings: readonly string[];

  constructor(
    private readonly cron: CronExpression,
    private readonly zone: TimeZone,
  ) {
    this.expression = cron.expression;
    this.timeZone = zone.name;
    const warnings = [dayWarning(cron), timeZoneWarning(zone.name)].filter((warning) => warning !== null);
    this.warnings = warnings.length > 0 ? warnings : NO_WARNINGS;
  }

  nextAfter(epochMs: number): number | null {
    let instant = Math.floor(requireInstant(epochMs)) + 1;
    while (instant <= END_OF_TIME_MS) {
      const period = this.zone.periodAt(instant);
      const { fromMs, madeUpAtMs } = firingIn(this.cron, period);
      if (madeUpAtMs !== null && madeUpAtMs > epochMs) {
        return madeUpAtMs;
      }
      const local = firstMatch(this.cron, Math.max(instant, fromMs) + period.offsetMs);
      if (local === null) {
        return null;
      }
      const found = local - period.offsetMs;
      if (found < period.endMs) {
        return found <= END_OF_TIME_MS ? found : null;
      }
      instant = Math.max(period.endMs, this.quietUntil(period));
    }
    return null;
  }

  previousBefore(epochMs: number): number | null {
    let instant = Math.ceil(requireInstant(epochMs)) - 1;
    while (instant >= -END_OF_TIME_MS) {
      const period = this.zone.periodAt(instant);
      const { fromMs, madeUpAtMs } = firingIn(this.cron, period);
      const local = lastMatch(this.cron, Math.min(instant, period.endMs - 1) + period.offsetMs);
      const found = local === null ? null : local - period.offsetMs;
      if (found !== null && found >= fromMs) {
        return found >= -END_OF_TIME_MS ? found : null;
      }
      if (madeUpAtMs !== null && madeUpAtMs < epochMs) {
        return madeUpAtMs;
      }
      if (found === null) {
        return null;
      }
      instant = Math.min(period.startMs - 1, this.quietSince(period));
    }
    return null;
  }

  between(fromMs: number, toMs: number, limit = Infinity): number[] {
    return fireTimesBetween(this, fromMs, toMs, limit);
  }

  countBetween(fromMs: number, toMs: number): number {
    const endMs = Math.floor(requireInstant(toMs));
    let count = 0;
    let instant = Math.floor(requireInstant(fromMs)) + 1;
    while (instant <= endMs) {
      const period = this.zone.periodAt(instant);
      const { fromMs: regularFromMs, madeUpAtMs } = firingIn(this.cron, period);
      const lastMs = Math.min(endMs, period.endMs - 1);
      count += countMatches(this.cron, Math.max(instant, regularFromMs) + period.offsetMs, lastMs + period.offsetMs);
      if (madeUpAtMs !== null && madeUpAtMs >= instant && !this.matchesAt(madeUpAtMs, period)) {
        count++;
      }
      instant = period.endMs;
    }
    return count;
  }

  clockChanges(fromMs: number, toMs: number): ClockChange[] {
    return clockChangesOf(this.cron, this.zone, requireInstant(fromMs), toMs);
  }

  /**
   * No fire time lies between the end of the period and this instant, whatever the clock does there: it may go back, so
   * that what has passed in this period comes again.
   */
  private quietUntil({ endMs, offsetMs }: OffsetPeriod): number {
    const local = firstMatch(this.cron, endMs + offsetMs - TWO_DAYS_MS);
    return local === null ? Infinity : local - offsetMs - TWO_DAYS_MS;
  }

  private quietSince({ startMs, offsetMs }: OffsetPeriod): number {
    const local = lastMatch(this.cron, startMs + offsetMs + TWO_DAYS_MS);
    return local === null ? -Infinity : local - offsetMs + TWO_DAYS_MS;
  }

  private matchesAt(epochMs: number, period: OffsetPeriod): boolean {
    const local = epochMs + period.offsetMs;
    return firstMatch(this.cron, local) === local;
  }
}

/**
 * The rule is Vixie cron's, and surprises most people: also where one field begins with `*` and still leaves days out.
 */
function dayWarning({ expression, days }: CronExpression): string | null {
  if (days.either) {
    return `Cron "${expression}" restricts both the day of month and the day of week; it fires when either of them matches.`;
  }
  const both = leavesOut(days.daysOfMonth, days.rulesOfMonth, 31) && leavesOut(days.daysOfWeek, days.rulesOfWeek, 7);
  return both
    ? `Cron "${expression}" has a day field that begins with *; it fires when both the day of month and the day of week match.`
    : null;
}

function leavesOut(values: readonly number[], rules: readonly unknown[], all: number): boolean {
  return values.length < all || rules.length > 0;
}

function requireInstant(epochMs: number): number {
  if (!Number.isFinite(epochMs)) {
    throw new RangeError(`An instant in epoch milliseconds is expected, not ${epochMs}.`);
  }
  return epochMs;
}

/** The fire times after one instant up to another, by a schedule's `nextAfter`. Milliseconds. */
export function fireTimesBetween(
  schedule: Pick<Schedule, 'nextAfter'>,
  fromMs: number,
  toMs: number,
  limit: number,
): number[] {
  const found: number[] = [];
  let next = limit > 0 ? schedule.nextAfter(fromMs) : null;
  while (next !== null && next <= toMs) {
    found.push(next);
    next = found.length < limit ? schedule.nextAfter(next) : null;
  }
  return found;
}
