import { describe, expect, it } from '@jest/globals';
import { differingZones, zoneRules } from '../../lib/jobs/job-instance.store.js';

const JUNE = Date.UTC(2026, 5, 15, 12);

describe('the rules of a zone', () => {
  it('are the same whenever in the year they are asked for, and in whichever order', () => {
    const rules = [Date.UTC(2026, 11, 31, 23, 59), Date.UTC(2026, 0, 1), JUNE].map((now) =>
      zoneRules('Europe/Berlin', now),
    );
    expect(new Set(rules.map((one) => JSON.stringify(one))).size).toBe(1);
    expect(Object.keys(rules[0]!)).toEqual(['2026', '2027']);
  });

  it('are the same for names of one zone, and others where a clock is changed at another time or to another offset', () => {
    const of = (zone: string) => JSON.stringify(zoneRules(zone, JUNE));
    expect(of('Asia/Calcutta')).toBe(of('Asia/Kolkata'));
    const all = [
      'Europe/Berlin',
      'Europe/London',
      'America/New_York',
      'America/Chicago',
      'Asia/Kolkata',
      'UTC',
      'Pacific/Chatham',
      'Africa/Casablanca',
    ].map(of);
    expect(new Set(all).size).toBe(all.length);
  });

  it('are compared where both sides know the zone and the year', () => {
    const own = {
      'Europe/Berlin': { 2026: 1, 2027: 2 },
      'Asia/Tokyo': { 2026: 3, 2027: 3 },
      'America/Lima': { 2026: 4 },
    };
    expect(differingZones(own, own)).toEqual([]);
    expect(
      differingZones(own, {
        'Europe/Berlin': { 2027: 7, 2028: 2 },
        'Asia/Tokyo': { 2025: 9, 2026: 3 },
        'Europe/Paris': { 2026: 1 },
      }),
    ).toEqual(['Europe/Berlin']);
    expect(differingZones(own, { 'Europe/Berlin': { 2028: 9 } })).toEqual([]);
  });
});
