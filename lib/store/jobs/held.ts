/**
 * SQL for: an operator holds the job back right now, disabled or paused.
 * @param jobName SQL for the job's name
 */
export function isHeld(jobSchedule: string, jobName: string): string {
  return `exists (
    select from ${jobSchedule} held
    where  held.name = ${jobName}
    and    (not held.enabled or held.paused_at is not null and (held.paused_until is null or held.paused_until > clock_timestamp())))`;
}
