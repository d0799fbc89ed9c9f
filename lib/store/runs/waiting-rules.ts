import type { Tables } from '../tables.js';

/** SQL for: what is started first. Live occurrences and their retries, then what is caught up, then backfills. */
export function precedence(run: string): string {
  return `case ${run}.trigger when 'catch-up' then 1 when 'backfill' then 2 else 0 end`;
}

/** SQL for: a person asked for it, beside the schedule. Occurrences of the schedule wait for it, and are not skipped because of it. */
export function isAskedFor(run: string): string {
  return `${run}.trigger in ('backfill', 'manual')`;
}

/**
 * SQL for: no other run of the job may go on beside this one. What a person asked for says so itself, everything else goes by
 * its job. Where so many may run beside each other, a manual run waits for a place as they do: all of them empty at once may
 * never be.
 * @param overlap SQL for the job's policy
 * @param parallel SQL for how many that allows; null for no limit
 */
export function runsAlone(run: string, overlap: string, parallel: string): string {
  return `case
    when ${run}.trigger = 'manual' and ${overlap} = 'allow' and ${parallel} is not null then false
    when ${isAskedFor(run)} then not ${run}.beside
    else ${overlap} <> 'allow' end`;
}

/**
 * SQL for: a run is under way. An instance has it and holds its lease, or it is its pages', which need no lease.
 * @param now SQL for the database's clock
 */
export function isUnderWay(run: string, now = 'clock_timestamp()'): string {
  return `${run}.status in ('running', 'fanned_out') and (${run}.status = 'fanned_out' or ${run}.lease_until > ${now})`;
}

/** SQL for: no run of the job is under way, apart from those that others may run beside. */
export function nothingInTheWay({ jobRuns }: Tables, jobName: string): string {
  return `not exists (
    select from ${jobRuns} other
    where  other.job_name = ${jobName}
    and    ${isUnderWay('other')}
    and    not other.beside)`;
}

/**
 * SQL for: the job allows so many runs beside each other that this one may be added, also one that a person asked for;
 * `parallel` is null where there is no limit.
 */
export function hasPlaceBeside({ jobRuns }: Tables, run: string): string {
  return `(${run}.alone or ${run}.overlap <> 'allow' or ${run}.parallel is null or ${run}.turn <= ${run}.parallel - (
    select count(*)
    from   ${jobRuns} other
    where  other.job_name = ${run}.job_name
    and    other.status = 'running'
    and    other.lease_until > clock_timestamp()))`;
}

/** SQL for: how many runs of a concurrency group are under way. */
export function runningInGroup({ jobRuns }: Tables, group: string): string {
  return `(select count(*)
    from   ${jobRuns} other
    where  other.concurrency_group = ${group}
    and    ${isUnderWay('other')})`;
}

/** SQL for: the run's concurrency group, if any, has so few running that this one may be added. */
export function groupHasPlace(tables: Tables, run: string): string {
  return `(${run}.concurrency_group is null or ${run}.group_turn <= ${run}.group_limit - ${runningInGroup(tables, `${run}.concurrency_group`)})`;
}

/** SQL for: the backfill of the run, if any, has so few running that this one may be added. */
export function backfillHasPlace({ jobRuns, jobBackfills }: Tables, run: string): string {
  return `(${run}.backfill_id is null or ${run}.backfill_turn <=
    coalesce((select max_concurrent from ${jobBackfills} backfill where backfill.id = ${run}.backfill_id), 1) - (
      select count(*)
      from   ${jobRuns} other
      where  other.job_name = ${run}.job_name
      and    ${isUnderWay('other')}
      and    other.backfill_id = ${run}.backfill_id))`;
}

/**
 * SQL for: a run of a backfill will be over before the schedule needs its place. It may take as long as the longest run
 * of its backfill so far and of the job's last twenty, a fifth more, and a little for the start.
 * @param neededAt SQL for the instant at which an occurrence of the schedule needs the place; null when none does
 */
export function leavesTheWayFree({ jobRuns }: Tables, run: string, neededAt: string): string {
  return `case when ${run}.trigger <> 'backfill' or ${run}.beside and ${neededAt} is null then true else (
    select coalesce(${neededAt} > clock_timestamp() + estimate.longest, true)
       and (${run}.beside or not exists (
              select from ${jobRuns} live
              where  live.job_name = ${run}.job_name
              and    live.trigger <> 'backfill'
              and    live.status in ('queued', 'failed', 'orphaned')
              and    live.next_attempt_at <= clock_timestamp() + estimate.longest))
    from  (select coalesce(max(finished_at - started_at), interval '0') * 1.2 + interval '100 milliseconds' as longest
           from  (select started_at, finished_at
                  from   ${jobRuns} own
                  where  own.backfill_id = ${run}.backfill_id
                  union  all
                  (select started_at, finished_at
                   from   ${jobRuns} recent
                   where  recent.job_name = ${run}.job_name
                   and    recent.status = 'done'
                   order  by fire_time desc
                   limit  20)) took) estimate) end`;
}
