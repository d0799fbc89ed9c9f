import { describe, expect, it } from '@jest/globals';
import { timeZoneOf } from '../../lib/cron/time-zone.js';
import { resolveTimeZone, timeZoneWarning } from '../../lib/cron/zone-names.js';

describe('the name of a zone', () => {
  it.each([
    ['Europe/Berlin', 'Europe/Berlin'],
    ['europe/berlin', 'Europe/Berlin'],
    ['Asia/Kolkata', 'Asia/Kolkata'],
    ['US/Pacific', 'US/Pacific'],
    ['utc', 'UTC'],
    ['GMT', 'GMT'],
    ['Etc/GMT+5', 'Etc/GMT+5'],
    ['Antarctica/Troll', 'Antarctica/Troll'],
  ])('%s is %s', (name, resolved) => {
    expect(resolveTimeZone(name)).toBe(resolved);
  });

  it.each([
    ['EST', 'Time zone "EST" is an abbreviation; write "America/New_York" or the IANA name of another region.'],
    ['pst', 'Time zone "pst" is an abbreviation; write "America/Los_Angeles" or the IANA name of another region.'],
    ['CEST', 'Time zone "CEST" is an abbreviation; write "Europe/Berlin" or the IANA name of another region.'],
    [
      'W. Europe Standard Time',
      'Time zone "W. Europe Standard Time" is a Windows name; write "Europe/Berlin" or the IANA name of another region.',
    ],
    [
      'Central Standard Time (Mexico)',
      'Time zone "Central Standard Time (Mexico)" is a Windows name; write "America/Mexico_City" or the IANA name of another region.',
    ],
    [
      'Atlantis Standard Time',
      'Time zone "Atlantis Standard Time" is a Windows name; write the IANA name of the region.',
    ],
    [
      'UTC+2',
      'Time zone "UTC+2" is a fixed offset; write the IANA name of a region, or "Etc/GMT-2" (the sign is reversed in these names).',
    ],
    [
      'GMT-05:00',
      'Time zone "GMT-05:00" is a fixed offset; write the IANA name of a region, or "Etc/GMT+5" (the sign is reversed in these names).',
    ],
    ['+05:30', 'Time zone "+05:30" is a fixed offset; write the IANA name of a region such as "Asia/Kolkata".'],
    ['Europe/Budapesst', 'Time zone "Europe/Budapesst" is unknown; did you mean "Europe/Budapest"?'],
    ['Berlin', 'Time zone "Berlin" is unknown; did you mean "Europe/Berlin"?'],
    ['New York', 'Time zone "New York" is unknown; did you mean "America/New_York"?'],
    ['Mars/Phobos', 'Time zone "Mars/Phobos" is unknown; write an IANA name such as "Europe/Berlin".'],
    ['', 'Time zone "" is not a name; write an IANA name such as "Europe/Berlin".'],
  ])('%s is refused', (name, message) => {
    expect(() => resolveTimeZone(name)).toThrow(expect.objectContaining({ code: 'invalid-time-zone' }));
    expect(() => resolveTimeZone(name)).toThrow(message);
  });

  it.each([
    [
      'CET',
      'Time zone "CET" is an abbreviation kept for old systems; "Europe/Brussels" or the IANA name of another region says what is meant.',
    ],
    ['Etc/GMT+5', 'Time zone "Etc/GMT+5" is UTC-5: the sign is reversed in these names.'],
    ['Europe/Berlin', null],
    ['UTC', null],
  ])('%s is worth this warning: %s', (name, warning) => {
    expect(timeZoneWarning(name)).toBe(warning);
  });

  it('is a string', () => {
    expect(() => resolveTimeZone(undefined as never)).toThrow('Time zone "undefined" is not a name');
  });
});

describe('the periods of a zone', () => {
  const HOUR = 3_600_000;
  const at = (zone: string, instant: string) => timeZoneOf(zone).periodAt(Date.parse(instant));

  it.each([
    ['Europe/Berlin', '2025-03-30T00:59:59.999Z', 2, 1],
    ['Europe/Berlin', '2025-03-30T01:00:00Z', 1, 2],
    ['Europe/Berlin', '2025-10-26T01:00:00Z', 2, 1],
    ['Australia/Lord_Howe', '2025-10-04T15:30:00Z', 10.5, 11],
    ['Antarctica/Troll', '2026-03-29T01:00:00Z', 0, 2],
    ['Pacific/Apia', '2011-12-30T10:00:00Z', -10, 14],
    ['Asia/Kathmandu', '1985-12-31T18:30:00Z', 5.5, 5.75],
    ['Europe/Berlin', '2150-07-01T00:00:00Z', 1, 2],
    ['UTC', '2025-01-01T00:00:00Z', 0, 0],
  ])('%s at %s: %d, then %d hours', (zone, instant, before, offset) => {
    const period = at(zone, instant);
    expect([period.offsetBeforeMs / HOUR, period.offsetMs / HOUR]).toEqual([before, offset]);
  });

  it('know a change also when they are asked for exactly a year after it', () => {
    const change = Date.parse('1967-10-29T08:00:00Z');
    const zone = timeZoneOf('America/Phoenix');
    const first = zone.periodAt(change);
    zone.periodAt(first.endMs);
    expect(zone.periodAt(change)).toMatchObject({ startMs: change, offsetBeforeMs: -6 * HOUR, offsetMs: -7 * HOUR });
  });

  it('join without a hole, in whatever order they are asked for', () => {
    const zone = timeZoneOf('Africa/Casablanca');
    for (const year of [2030, 2019, 2024, 2010, 2021, 1965]) {
      for (let instant = Date.UTC(year, 0), i = 0; i < 8; i++) {
        const period = zone.periodAt(instant);
        expect(period.startMs <= instant && instant < period.endMs).toBe(true);
        const next = zone.periodAt(period.endMs);
        expect(next.startMs <= period.endMs && next.endMs > period.endMs).toBe(true);
        if (next.startMs === period.endMs) {
          expect(next.offsetBeforeMs).toBe(period.offsetMs);
        } else {
          expect(next.offsetMs).toBe(period.offsetMs);
        }
        instant = period.endMs;
      }
    }
  });
});
