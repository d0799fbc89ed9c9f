import { Temporal } from 'temporal-polyfill';
import { InvalidTimeZoneError } from '../../errors/invalid-time-zone.error.js';
import { meaningOf, offsetZone, suggestZone } from './time-zone-names.js';

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
 * @throws {InvalidTimeZoneError} as {@link resolveTimeZone}
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

/**
 * The name in the spelling of the tz database: `europe/berlin` becomes `Europe/Berlin`. Links keep their name.
 *
 * @throws {InvalidTimeZoneError} for names that are unknown, and for those that do not mean what they seem to: Windows
 * names, abbreviations (`EST` never changes its clock, New York does) and bare offsets (`UTC+2`).
 */
export function resolveTimeZone(name: string): string {
  if (typeof name !== 'string' || name === '') {
    throw new InvalidTimeZoneError(String(name), 'is not a name; write an IANA name such as "Europe/Berlin".');
  }
  const meaning = meaningOf(name);
  if (meaning?.refused) {
    const instead = meaning.zone ? `"${meaning.zone}" or the IANA name of another region` : 'the IANA name of the region';
    throw new InvalidTimeZoneError(name, `is ${meaning.kind}; write ${instead}.`);
  }
  const offset = offsetZone(name);
  if (offset !== null) {
    throw new InvalidTimeZoneError(name, `is a fixed offset; write the IANA name of a region${offset}.`);
  }
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name).timeZoneId;
  } catch (cause) {
    throw new InvalidTimeZoneError(name, `is unknown; ${suggestZone(name)}`, { cause });
  }
}

/** What is worth telling the owner of a zone that is accepted, or null. */
export function timeZoneWarning(name: string): string | null {
  const meaning = meaningOf(name);
  if (meaning && !meaning.refused) {
    const instead = `"${meaning.zone}" or the IANA name of another region`;
    return `Time zone "${name}" is ${meaning.kind}; ${instead} says what is meant.`;
  }
  const reversed = /^Etc\/GMT([+-])(\d+)$/i.exec(name);
  if (reversed && reversed[2] !== '0') {
    const offset = `UTC${reversed[1] === '+' ? '-' : '+'}${reversed[2]}`;
    return `Time zone "${name}" is ${offset}: the sign is reversed in these names.`;
  }
  return null;
}
