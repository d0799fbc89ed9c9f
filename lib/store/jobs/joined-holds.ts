/**
 * SQL that sets the columns of a job's holds when it takes the place of another: whatever held back either of the two holds
 * it back, and of two pauses the one that lasts longer is the job's. With itself in its own place nothing changes.
 * It needs the rows that {@link joinedPause} adds.
 */
export const JOINED_HOLDS = `enabled = own.enabled and holder.enabled,
              disabled_at = least(own.disabled_at, holder.disabled_at),
              paused_at = pause.paused_at,
              paused_until = pause.paused_until,
              paused_by = pause.paused_by,
              paused_reason = pause.paused_reason,
              earlier_holds = holder.earlier_holds || case
                when pause.name <> holder.name and holder.paused_at is not null
                then jsonb_build_array(jsonb_build_object(
                       'reason', 'paused',
                       'since', holder.paused_at,
                       'until', least(holder.paused_until, clock_timestamp()),
                       'by', holder.paused_by,
                       'why', holder.paused_reason))
                else '[]'
              end`;

/** SQL that joins the row whose pause lasts longer, as `pause`: that of `own`, if it holds at all, or of `holder`. */
export function joinedPause(jobSchedule: string): string {
  return `join ${jobSchedule} pause on pause.name = case
         when ${endOfPause('own')} > greatest(${endOfPause('holder')}, clock_timestamp()) then own.name
         else holder.name
       end`;
}

/** SQL that sets the columns of a name that gives up its place: what held it back has gone on with the job. */
export const NO_HOLDS = `enabled = true,
              disabled_at = null,
              paused_at = null,
              paused_until = null,
              paused_by = null,
              paused_reason = null,
              earlier_holds = '[]'`;

function endOfPause(row: string): string {
  return `case when ${row}.paused_at is null then '-infinity' else coalesce(${row}.paused_until, 'infinity') end`;
}
