import { timeZoneOf } from '../domain/schedule/time-zone.js';

/** An instant as a clock on the wall of a zone shows it: `2026-03-29 02:15:00`. */
export function zonedTime(instant: Date, timeZone: string): string {
  const { offsetMs } = timeZoneOf(timeZone).periodAt(instant.getTime());
  return new Date(instant.getTime() + offsetMs).toISOString().slice(0, 19).replace('T', ' ');
}
