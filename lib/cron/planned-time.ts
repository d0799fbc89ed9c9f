/** A date and a time with an offset. Beyond the milliseconds a fraction is read, and left out. */
const RFC_3339 = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/;

/**
 * An instant as clocks outside write it (RFC 3339), in milliseconds; null for everything else, and for days that there
 * are not.
 */
export function readInstant(given: unknown): number | null {
  if (typeof given !== 'string' || !RFC_3339.test(given)) return null;
  const instant = Date.parse(given.toUpperCase());
  if (Number.isNaN(instant)) return null;
  // Date.parse takes the 31st of a short month for the 1st of the next one.
  const [year, month, day] = given.slice(0, 10).split('-').map(Number);
  return new Date(Date.UTC(year!, month! - 1, day)).getUTCDate() === day ? instant : null;
}

/**
 * The planned time of a Job that a Kubernetes CronJob made, milliseconds: its name ends with the minutes since 1970.
 * The annotation that says the same stands on the Job alone, where its pod cannot read it.
 * @returns null for a Job that a person made
 */
export function timeOfKubernetesJob(name: unknown): number | null {
  const [, minutes] = typeof name === 'string' ? (/^[a-z0-9.-]+-(\d{8,9})$/.exec(name) ?? []) : [];
  return minutes === undefined ? null : Number(minutes) * 60_000;
}
