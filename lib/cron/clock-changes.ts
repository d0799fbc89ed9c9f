import { countMatches, firstMatch } from './cron-matches.js';
import type { CronExpression } from './cron-expression.js';
import type { OffsetPeriod, TimeZone } from './time-zone.js';

/** How an expression fires in one period of constant offset. */
interface Firing {
  /** Every match of the local clock fires from this instant on, in epoch milliseconds. */
  readonly fromMs: number;
  /** The start of the period, when it fires for what the clock skipped there. */
  readonly madeUpAtMs: number | null;
}

/** Vixie cron takes a change of this much or more for a correction, and follows the clock at once. */
const CORRECTION_MS = 3 * 3_600_000;

/**
 * The rule of Vixie cron (cron(8), "daylight saving time"). An expression with a `*` in minute or hour follows the
 * clock: nothing is made up, and a repeated hour counts twice. A fixed one fires once for whatever a gap skipped, at
 * the instant of the change, and not again in the second pass of a repeated hour.
 */
export function firingIn(cron: CronExpression, { startMs, offsetMs, offsetBeforeMs }: OffsetPeriod): Firing {
  const change = offsetMs - offsetBeforeMs;
  if (change === 0 || followsTheClock(cron, change)) {
    return { fromMs: startMs, madeUpAtMs: null };
  }
  if (change < 0) {
    return { fromMs: startMs - change, madeUpAtMs: null };
  }
  const skipped = firstMatch(cron, startMs + offsetBeforeMs);
  const missed = skipped !== null && skipped < startMs + offsetMs;
  return { fromMs: startMs, madeUpAtMs: missed ? startMs : null };
}

/** Whether an expression fires at what the clock shows and at nothing else, when it changes by so many milliseconds. */
function followsTheClock(cron: CronExpression, changeMs: number): boolean {
  return !cron.fixed || Math.abs(changeMs) >= CORRECTION_MS;
}

/** What one change of a zone's clock does to a schedule. Instants are epoch milliseconds. */
export interface ClockChange {
  /** The instant of the change. */
  readonly at: number;
  /**
   * `moved`: the clock skips times of day at which it was to fire; it fires once for them, at the change.
   * `skipped`: as `moved`, but nothing is made up: the schedule follows the clock. `doubled`: the clock shows the times
   * twice, and it fires both times.
   */
  readonly kind: 'moved' | 'skipped' | 'doubled';
  /** The first of the times concerned, as the clock on the wall shows them: `2027-03-28 02:15`. */
  readonly localTimes: readonly string[];
  /** How many there are. */
  readonly count: number;
  /**
   * When it fires for `localTimes`, ascending: none when skipped, the change when moved, twice for each when doubled.
   */
  readonly fireTimes: readonly number[];
  /** Local time minus UTC, in milliseconds. */
  readonly offsetBeforeMs: number;
  readonly offsetAfterMs: number;
  /**
   * Whether its owner should be told. A schedule that fires in twelve hours of the day or more is an interval to
   * people, and they expect what a clock change does to it; one that fires in fewer names times of day.
   */
  readonly surprising: boolean;
}

/** Work and text are bounded: a schedule of every second has 3,600 times in a skipped hour. */
const MOST_TIMES = 4;

const HOURS_OF_AN_INTERVAL = 12;

const LONGEST_MS = 366 * 86_400_000;

/**
 * The changes from `fromMs` (exclusive) to `toMs` (inclusive, at most a year later) that move, double or skip a fire
 * time.
 */
export function clockChangesOf(cron: CronExpression, zone: TimeZone, fromMs: number, toMs: number): ClockChange[] {
  const lastMs = Math.min(toMs, fromMs + LONGEST_MS);
  const changes: ClockChange[] = [];
  for (let period = zone.periodAt(fromMs); period.endMs <= lastMs; ) {
    const next = zone.periodAt(period.endMs);
    // A period may also end because nobody has looked further.
    const change = next.startMs === period.endMs ? changeAt(cron, next) : null;
    if (change) changes.push(change);
    period = next;
  }
  return changes;
}

function changeAt(cron: CronExpression, { startMs: at, offsetBeforeMs, offsetMs }: OffsetPeriod): ClockChange | null {
  const forward = offsetMs > offsetBeforeMs;
  const follows = followsTheClock(cron, offsetMs - offsetBeforeMs);
  // Of a repeated hour, a fixed schedule takes the first pass: nothing is unusual.
  if (offsetMs === offsetBeforeMs || (!forward && !follows)) return null;
  const fromLocal = at + Math.min(offsetBeforeMs, offsetMs);
  const untilLocal = at + Math.max(offsetBeforeMs, offsetMs);
  const locals = matchesWithin(cron, fromLocal, untilLocal);
  if (locals.length === 0) return null;
  const kind = forward ? (follows ? 'skipped' : 'moved') : 'doubled';
  const passes = [offsetBeforeMs, offsetMs].flatMap((offset) => locals.map((local) => local - offset));
  return {
    at,
    kind,
    localTimes: locals.map(wallTime),
    count: locals.length < MOST_TIMES ? locals.length : countMatches(cron, fromLocal, untilLocal - 1),
    fireTimes: { moved: [at], skipped: [], doubled: passes }[kind],
    offsetBeforeMs,
    offsetAfterMs: offsetMs,
    surprising: cron.hours.length < HOURS_OF_AN_INTERVAL,
  };
}

function matchesWithin(cron: CronExpression, fromLocal: number, untilLocal: number): number[] {
  const found: number[] = [];
  let local = firstMatch(cron, fromLocal);
  while (local !== null && local < untilLocal && found.length < MOST_TIMES) {
    found.push(local);
    local = firstMatch(cron, local + 1);
  }
  return found;
}

function wallTime(localMs: number): string {
  const text = new Date(localMs).toISOString().slice(0, 19).replace('T', ' ');
  return text.endsWith(':00') ? text.slice(0, -3) : text;
}
