import { Temporal } from 'temporal-polyfill';
import { resolveTimeZone } from './zone-names.js';

/** A stretch of time in which a zone's offset from UTC does not change. Neighbours may have the same offset. */
export interface OffsetPeriod {
  /** Its first instant, in epoch milliseconds. */
  readonly startMs: number;
  /** The first instant after it. */
  readonly endMs: number;
  /** Local time minus UTC, in milliseconds. */
  readonly offsetMs: number;
  /** The offset just before `startMs`; the same as `offsetMs` where the clock did not change then. */
  readonly offsetBeforeMs: number;
}

/** The offset changes of one zone, looked up once each. */
export class TimeZone {
  /** Ascending, with holes where nobody has asked. */
  private readonly periods: OffsetPeriod[] = [];

  /** Use {@link timeZoneOf}, which shares what is already known. */
  constructor(
    /** The IANA name, in the spelling of the tz database. */
    readonly name: string,
  ) {}

  /** The period that contains an instant given in epoch milliseconds. */
  periodAt(epochMs: number): OffsetPeriod {
    const index = this.periods.findLastIndex((period) => period.startMs <= epochMs);
    if (index >= 0 && epochMs < this.periods[index].endMs) {
      return this.periods[index];
    }
    const period = this.lookUp(epochMs);
    this.periods.splice(index + 1, 0, period);
    return period;
  }

  /**
   * A period starts a year before the instant, or ends a year after it, where the clock did not change meanwhile:
   * looking further costs milliseconds in the many zones whose last change is decades ago.
   */
  private lookUp(epochMs: number): OffsetPeriod {
    let start = this.at(Math.max(EARLIEST_MS, epochMs - YEAR_MS));
    let end = start.getTimeZoneTransition('next');
    while (end && end.epochMilliseconds <= epochMs) {
      start = end;
      end = start.getTimeZoneTransition('next');
    }
    const startMs = start.epochMilliseconds;
    return {
      startMs,
      endMs: Math.min(end?.epochMilliseconds ?? Infinity, epochMs + YEAR_MS),
      offsetMs: start.offsetNanoseconds / 1e6,
      offsetBeforeMs: this.at(Math.max(EARLIEST_MS, startMs - 1)).offsetNanoseconds / 1e6,
    };
  }

  private at(epochMs: number): Temporal.ZonedDateTime {
    return Temporal.Instant.fromEpochMilliseconds(epochMs).toZonedDateTimeISO(this.name);
  }
}

const YEAR_MS = 366 * 86_400_000;

const EARLIEST_MS = -8.64e15;

const ZONES = new Map<string, TimeZone>();

/**
 * @param name an IANA name such as `Europe/Berlin`
 * @throws {InvalidScheduleError} as {@link resolveTimeZone}
 */
export function timeZoneOf(name: string): TimeZone {
  let zone = ZONES.get(name);
  if (!zone) {
    const resolved = resolveTimeZone(name);
    zone = ZONES.get(resolved) ?? new TimeZone(resolved);
    ZONES.set(name, zone).set(resolved, zone);
  }
  return zone;
}
