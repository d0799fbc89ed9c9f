import { firstMatch } from './cron-calendar.js';
import type { CronExpression } from './cron-expression.js';
import type { OffsetPeriod } from './time-zone.js';

/** How an expression fires in one period of constant offset. */
export interface Firing {
  /** Every match of the local clock fires from this instant on, in epoch milliseconds. */
  readonly fromMs: number;
  /** The start of the period, when it fires for what the clock skipped there. */
  readonly madeUpAtMs: number | null;
}

/** Vixie cron takes a change of this much or more for a correction, and follows the clock at once. */
const CORRECTION_MS = 3 * 3_600_000;

/**
 * The rule of Vixie cron (cron(8), "daylight saving time"). An expression with a `*` in minute or hour follows the clock:
 * nothing is made up, and a repeated hour counts twice. A fixed one fires once for whatever a gap skipped, at the instant
 * of the change, and not again in the second pass of a repeated hour.
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
export function followsTheClock(cron: CronExpression, changeMs: number): boolean {
  return !cron.fixed || Math.abs(changeMs) >= CORRECTION_MS;
}
