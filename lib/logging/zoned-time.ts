/** An instant as a clock on the wall of a zone shows it: `2026-03-29 02:15:00`. */
export function zonedTime(instant: Date, timeZone: string): string {
  // Swedish writes dates as ISO 8601 does.
  return new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' }).format(instant);
}
