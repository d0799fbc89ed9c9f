import type { Schedule } from '../../domain/schedule/schedule.js';

/** A schedule as an instance says that it declares it: without a calendar, as versions that know of none do. */
export function declaredSchedule({ expression, timeZone, calendar }: Schedule): string[] {
  return calendar === null ? [expression, timeZone] : [expression, timeZone, calendar];
}

/** SQL for the same of a stored one, as jsonb. */
export function scheduleAsDeclared(stored: string): string {
  return `case when ${stored}.calendar is null then jsonb_build_array(${stored}.cron, ${stored}.time_zone)
                 else jsonb_build_array(${stored}.cron, ${stored}.time_zone, ${stored}.calendar) end`;
}
