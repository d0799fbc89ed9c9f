import { textHash } from './text-hash.js';
import { timeZoneOf } from './time-zone.js';

/** By calendar year (UTC): a number for the offset with which it begins and all changes of the clock in it. */
export type ZoneRules = Readonly<Record<string, number>>;

/** The rules of zones, by their names. */
export type RulesOfZones = Readonly<Record<string, ZoneRules>>;

/** The rules of a zone in the year of an instant and in the next, as the time-zone data of this process have them. */
export function zoneRules(timeZone: string, epochMs: number): ZoneRules {
  const year = new Date(epochMs).getUTCFullYear();
  return Object.fromEntries([year, year + 1].map((each) => [each, rulesOfYear(timeZone, each)]));
}

/** The zones that both know, and whose rules differ in a year that both know. */
export function differingZones(own: RulesOfZones, other: RulesOfZones): string[] {
  return Object.keys(own).filter((zone) =>
    Object.entries(own[zone]!).some(([year, rules]) => {
      const there = other[zone]?.[year];
      return there !== undefined && there !== rules;
    }),
  );
}

function rulesOfYear(timeZone: string, year: number): number {
  const zone = timeZoneOf(timeZone);
  const end = Date.UTC(year + 1, 0);
  let period = zone.periodAt(Date.UTC(year, 0));
  const rules = [`from ${period.offsetMs}`];
  while (period.endMs < end) {
    const { offsetMs } = period;
    period = zone.periodAt(period.endMs);
    if (period.offsetMs !== offsetMs) rules.push(`${period.startMs} to ${period.offsetMs}`);
  }
  return textHash(rules.join(', '));
}
