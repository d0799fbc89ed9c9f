import { recordset } from './claim-recordset.js';
import { isOff } from '../jobs/flag-off.js';
import { isHeld } from '../jobs/held.js';
import { isRemoved } from '../jobs/is-removed.js';
import type { Tables } from '../tables.js';
import { tellingInstance } from '../wake-up.js';
import { backfillHasPlace, groupHasPlace, hasPlaceBeside, isAskedFor, isUnderWay, leavesTheWayFree, nothingInTheWay, precedence, runsAlone } from './waiting-rules.js';

/** A checkpoint up to this size, as it is stored, comes with the claim; a larger one is read when its handler asks for it. */
const MOST_CARRIED_BYTES = 8_192;

/**
 * Judges each candidate and inserts those that are due and free, and those that are not to run with their reason. What is
 * due while a run that a person asked for is in its way is queued: it is neither skipped nor, however long that takes, missed.
 * @param candidates SQL for a jsonb array of `DueOccurrence`
 * @param instanceId SQL for a jsonb text
 */
export function insertDue(tables: Tables, candidates: string, instanceId: string): string {
  const { jobRuns, jobSchedule, jobFlags } = tables;
  return `
     with clock as materialized (
       select clock_timestamp() as now
     ),
     candidate as materialized (
       select due.job_name, due.fire_time, due.starts_at, due.overlap, due.parallel, due.queue_limit, due.concurrency_group, due.group_limit, due.lease_ms, clock.now,
              due.delivered, due.delivered_by, due.delivered_data,
              run.job_name is not null as taken,
              schedule.name is null
                or schedule.cron <> due.cron or schedule.time_zone <> due.time_zone or schedule.calendar is distinct from due.calendar
                or schedule.yields_to is not null or schedule.removed_at is not null as outdated,
              coalesce(due.fire_time <= schedule.decided_until and not due.by_hand, false) as decided,
              due.starts_at > clock.now as early,
              case
                when not schedule.enabled then 'disabled'
                when schedule.paused_at is not null and (
                  schedule.paused_until is null or schedule.paused_until > clock.now
                  or due.fire_time >= schedule.paused_at and due.fire_time < schedule.paused_until) then 'paused'
                when due.off is not null then due.off
                when ${isOff(jobFlags, 'due.flag')} then 'flag off: ' || due.flag
                else (select hold ->> 'reason'
                      from   jsonb_array_elements(schedule.earlier_holds) hold
                      where  due.fire_time >= coalesce((hold ->> 'since')::timestamptz, '-infinity')
                      and    due.fire_time < (hold ->> 'until')::timestamptz
                      limit  1)
              end as held,
              busy.running, busy.busy_since, busy.asked_for, line.queued
       from   ${recordset(candidates, 'due')}
       cross  join clock
       cross  join lateral (
         select count(*) as running,
               (array_agg(other.started_at order by other.started_at) filter (where not ${isAskedFor('other')}))[due.parallel] as busy_since,
                coalesce(bool_or(${isAskedFor('other')}), false) as asked_for
         from   ${jobRuns} other
         where  due.parallel is not null
         and    other.job_name = due.job_name
         and    ${isUnderWay('other', 'clock.now')}
         and    (due.overlap = 'allow' and other.status = 'running' or due.overlap <> 'allow' and not other.beside)) busy
       cross  join lateral (
         select count(*) as queued
         from   ${jobRuns} other
         where  due.overlap = 'queue'
         and    other.job_name = due.job_name
         and    other.status = 'queued'
         and    other.trigger in ('schedule', 'external')) line
       left   join ${jobSchedule} schedule on schedule.name = due.job_name
       left   join ${jobRuns} run on run.job_name = due.job_name and run.fire_time = due.fire_time
     ),
     placed as (
       select candidate.*,
              row_number() over (partition by job_name, overlap, open order by fire_time) as turn,
              row_number() over (partition by job_name, overlap, open order by fire_time desc) as turn_from_newest,
              busy_since is not null or asked_for or queued > 0 as in_line
       from  (select candidate.*, not (taken or decided or early or outdated) and held is null as open
              from   candidate) candidate
     ),
     judged as (
       select placed.*,
              case
                when taken then 'taken'
                when outdated then 'outdated'
                -- Covered by a gap, or of a time in which another schedule held: whoever asks has an old timeline.
                when decided then 'taken'
                when early and not delivered then 'early'
                when held is not null then 'skipped'
                when early then 'queued'
                when overlap = 'queue' and (in_line or turn > 1) then
                  case when queued + turn - case when in_line then 0 else 1 end <= queue_limit then 'queued' else 'skipped' end
                when overlap = 'replace' and turn_from_newest > 1 then 'skipped'
                when overlap = 'replace' and in_line then 'queued'
                when overlap <> 'replace' and busy_since <= starts_at then 'skipped'
                when busy_since is not null then 'waiting'
                when asked_for and turn > parallel - running then 'queued'
                when overlap <> 'replace' and turn > parallel - running then 'waiting'
                else 'claimed'
              end as verdict,
              coalesce(held, case
                when overlap = 'queue' then 'overlap: the queue is full'
                when overlap = 'replace' then 'overlap: replaced by a newer one'
                when busy_since <= starts_at then 'overlap' end) as reason
       from   placed
     ),
     admitted as (
       select placeless.*,
              case
                -- What is delivered may have nobody here to run it: whoever has room starts it.
                when delivered and verdict in ('claimed', 'waiting') then 'queued'
                when placeless and overlap = 'queue' then 'queued'
                when placeless then 'waiting'
                -- The first of its line waits in it, too.
                when overlap = 'queue' and verdict = 'queued' and first_is_placeless and turn > queue_limit then 'skipped'
                else verdict
              end as admission
       from  (select placeless.*, bool_or(placeless) over (partition by job_name, overlap) as first_is_placeless
              from  (select judged.*, verdict = 'claimed' and not ${groupHasPlace(tables, 'judged')} as placeless
                     from  (select judged.*, row_number() over (partition by concurrency_group, verdict order by starts_at, job_name, fire_time) as group_turn
                            from   judged) judged) placeless) placeless
     ),
     -- What waits of an earlier occurrence gives way to the newest one; what runs is told to stop, and keeps its lease until it has.
     replaced as (
       update ${jobRuns} old
       set    status = case when old.status in ('running', 'fanned_out') then old.status else 'cancelled' end,
              reason = case when old.status in ('running', 'fanned_out') then old.reason else 'replaced by a newer one' end,
              finished_at = case when old.status in ('running', 'fanned_out') then old.finished_at else admitted.now end,
              next_attempt_at = null,
              cancel_requested_at = case when old.status in ('running', 'fanned_out') then admitted.now end,
              cancel_reason = case when old.status in ('running', 'fanned_out') then 'replaced by a newer one' end
       from   admitted
       where  admitted.overlap = 'replace'
       and    admitted.admission in ('claimed', 'queued')
       and    old.job_name = admitted.job_name
       and    old.fire_time < admitted.fire_time
       and    old.status in ('running', 'fanned_out', 'queued', 'failed', 'orphaned')
       and    old.cancel_requested_at is null
       and    not old.beside
       and    not ${isAskedFor('old')}
       returning case when old.status = 'running' then ${tellingInstance(tables, 'old.claimed_by')} end
     ),
     inserted as (
       insert into ${jobRuns}
              (job_name, fire_time, status, trigger, reason, claimed_by, attempt, started_at, lease_until, finished_at, next_attempt_at,
               concurrency_group, requested_by, data)
       select job_name, fire_time, 'skipped', case when delivered then 'external' else 'schedule' end, reason, null, 0, null, null, now, null::timestamptz,
              null, delivered_by, delivered_data
       from   admitted
       where  admission = 'skipped'
       union  all
       select job_name, fire_time, 'running', 'schedule', null, ${instanceId} #>> '{}', 1, now, now + lease_ms * interval '1 millisecond', null, null,
              concurrency_group, null, null
       from   admitted
       where  admission = 'claimed'
       union  all
       select job_name, fire_time, 'queued', case when delivered then 'external' else 'schedule' end,
              case when delivered and (early or verdict <> 'queued') then 'waits for its start' else 'waits for a run before it' end,
              null, 0, null, null, null, greatest(now, starts_at), null, delivered_by, delivered_data
       from   admitted
       where  admission = 'queued'
       order  by 1, 2
       on conflict (job_name, fire_time) do nothing
       returning job_name, fire_time, attempt, releases, trigger, lease_until
     )
     select admitted.job_name, admitted.fire_time, admitted.now, inserted.attempt, inserted.releases, inserted.trigger, inserted.lease_until,
            admitted.reason,
            case
              when admitted.admission in ('claimed', 'skipped', 'queued') and inserted.job_name is null then 'taken'
              else admitted.admission
            end as verdict
     from   admitted
     left   join inserted on inserted.job_name = admitted.job_name and inserted.fire_time = admitted.fire_time
     order  by admitted.job_name, admitted.fire_time`;
}

/**
 * Starts the next attempt of each candidate that still waits as it was seen, and keeps what the last attempt came to.
 * @param candidates SQL for a jsonb array of `WaitingRun`
 * @param instanceId SQL for a jsonb text
 */
export function startWaiting(tables: Tables, candidates: string, instanceId: string): string {
  const { jobRuns, jobSchedule, jobFlags } = tables;
  return `
     update ${jobRuns} run
     set    status = 'running',
            reason = null,
            attempt = run.attempt + 1,
            claimed_by = ${instanceId} #>> '{}',
            concurrency_group = candidate.concurrency_group,
            started_at = clock_timestamp(),
            finished_at = null,
            lease_until = clock_timestamp() + candidate.lease_ms * interval '1 millisecond',
            next_attempt_at = null,
            cancel_requested_at = null,
            cancel_reason = null,
            error = null,
            pages = null,
            earlier_attempts = case when run.claimed_by is null then run.earlier_attempts else run.earlier_attempts || jsonb_build_object(
              'attempt', run.attempt,
              'claimedBy', run.claimed_by,
              'startedAt', run.started_at,
              'finishedAt', run.finished_at,
              'status', run.status,
              'error', run.error,
              'reason', run.reason) end
     from  (select ready.*, row_number() over (partition by ready.concurrency_group order by ready.precedence, ready.fire_time) as group_turn
     from  (select waiting.*, seen.trigger, seen.beside, seen.backfill_id, kind.alone, ${precedence('seen')} as precedence,
                   row_number() over (partition by waiting.job_name, kind.alone order by ${precedence('seen')}, waiting.fire_time) as turn,
                   row_number() over (partition by seen.backfill_id order by waiting.fire_time) as backfill_turn
            from   ${recordset(candidates, 'waiting')}
            join   ${jobRuns} seen on seen.job_name = waiting.job_name and seen.fire_time = waiting.fire_time and seen.attempt = waiting.attempt
                     and seen.status in ('queued', 'failed', 'orphaned')
            cross  join lateral (select ${runsAlone('seen', 'waiting.overlap', 'waiting.parallel')} as alone) kind) ready
     where (not ready.alone or ready.turn = 1 and ${nothingInTheWay(tables, 'ready.job_name')})
     and    ${hasPlaceBeside(tables, 'ready')}
     and    ${backfillHasPlace(tables, 'ready')}
     and    ${leavesTheWayFree(tables, 'ready', 'ready.place_needed_at')}) candidate
     where  run.job_name = candidate.job_name
     and    run.fire_time = candidate.fire_time
     and    ${groupHasPlace(tables, 'candidate')}
     and    run.status in ('queued', 'failed', 'orphaned')
     and    run.next_attempt_at <= clock_timestamp()
     and    run.fire_time <= clock_timestamp()
     and    run.attempt = candidate.attempt
     and    not ${isRemoved(tables, 'candidate.job_name')}
     and    not ${isHeld(jobSchedule, 'candidate.job_name')}
     and    candidate.off is null
     and    not ${isOff(jobFlags, 'candidate.flag')}
     returning run.job_name, run.fire_time, run.attempt, run.releases, run.trigger, run.beside, run.lease_until, run.data,
               run.checkpoint is not null as has_checkpoint,
               case when pg_column_size(run.checkpoint) <= ${MOST_CARRIED_BYTES} then jsonb_build_array(run.checkpoint) end as checkpoint,
               null as reason, 'claimed' as verdict, clock_timestamp() as now`;
}
