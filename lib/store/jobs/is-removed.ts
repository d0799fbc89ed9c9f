import type { Tables } from '../tables.js';

/**
 * SQL for: the job was made at run time and taken out, so that no instance would start a run of it.
 * @param jobName SQL for its name
 */
export function isRemoved({ jobSchedule }: Tables, jobName: string): string {
  return `exists (select from ${jobSchedule} removed where removed.name = ${jobName} and removed.removed_at is not null)`;
}
