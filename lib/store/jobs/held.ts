/**
 * SQL for when an operator's hold on the job ends by itself: infinity for one that somebody has to end, null or past for none.
 * @param jobName SQL for the job's name
 */
export function heldUntil(jobSchedule: string, jobName: string): string {
  return `(
    select case when not held.enabled then 'infinity'::timestamptz
                when held.paused_at is not null then coalesce(held.paused_until, 'infinity') end
    from   ${jobSchedule} held
    where  held.name = ${jobName})`;
}

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
