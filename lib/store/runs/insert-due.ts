import { isOff } from '../jobs/flag-off.js';
import type { Tables } from '../tables.js';
import { tellingInstance } from '../wake-up.js';
import type { BatchRules } from './batch-rules.js';
import { recordset } from './claim-recordset.js';
import { groupHasPlace, isAskedFor, isUnderWay } from './waiting-rules.js';

/** SQL for the parameters of the statement, each a jsonb value. */
export interface InsertDueParameters {
  /** An array of `DueOccurrence`. */
  readonly candidates: string;
  readonly instanceId: string;
  /** The earliest fire time of the candidates, and the latest: no other month is looked at for them. */
  readonly from: string;
  readonly until: string;
}

/**
 * Judges each candidate and inserts those that are due and free, and those that are not to run with their reason. What is
 * due while a run that a person asked for is in its way is queued: it is neither skipped nor, however long that takes, missed.
 */
export function insertDue(tables: Tables, rules: BatchRules, { candidates, instanceId, from, until }: InsertDueParameters): string {
  const { jobRuns, jobSchedule } = tables;
  const left = {
    busy: rules.limits ? `left join busy on busy.job_name = due.job_name` : '',
    turn: rules.repeats ? `row_number() over (partition by job_name, overlap, open order by fire_time)` : '1',
    turnFromNewest: rules.repeats ? `row_number() over (partition by job_name, overlap, open order by fire_time desc)` : '1',
  };
  return `
     with clock as materialized (
       select clock_timestamp() as now
     ),
     due as materialized (
       select due.*
       from   ${recordset(candidates, 'due')}
     ),
     ${rules.limits ? `${busyJobs(tables)},` : ''}
     candidate as materialized (
       select due.*, clock.now,
              -- One look at a key for each: whatever the planner knows of the table, it reads nothing else of it.
             (select true
              from   ${jobRuns} run
              where  run.job_name = due.job_name
              and    run.fire_time = due.fire_time
              and    run.fire_time between (${from} #>> '{}')::timestamptz and (${until} #>> '{}')::timestamptz) is not null as taken,
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
                ${rules.flags ? `when ${isOff(tables.jobFlags, 'due.flag')} then 'flag off: ' || due.flag` : ''}
                else (select hold ->> 'reason'
                      from   jsonb_array_elements(schedule.earlier_holds) hold
                      where  due.fire_time >= coalesce((hold ->> 'since')::timestamptz, '-infinity')
                      and    due.fire_time < (hold ->> 'until')::timestamptz
                      limit  1)
              end as held,
              ${rules.limits ? busyOf('due') : NOT_BUSY},
              ${rules.queues ? queuedOf(jobRuns, 'due') : '0'} as queued
       from   due
       cross  join clock
       ${left.busy}
       left   join ${jobSchedule} schedule on schedule.name = due.job_name
     ),
     placed as (
       select candidate.*,
              ${left.turn} as turn,
              ${left.turnFromNewest} as turn_from_newest,
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
     admitted as materialized (
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
       from   ${rules.groups ? placelessOfGroups(tables) : PLACES_FOR_ALL} placeless
     ),
     ${rules.replaces ? `${replacedRuns(tables)},` : ''}
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
 * What is under way of the candidates' jobs, looked for once for all of them. `allow` counts what runs, everything else what
 * others may not run beside.
 */
function busyJobs({ jobRuns }: Tables): string {
  const [runs, alone, asked] = [`other.status = 'running'`, 'not other.beside', isAskedFor('other')];
  const since = (counted: string) => `array_agg(other.started_at order by other.started_at) filter (where ${counted} and not ${asked})`;
  return `busy as materialized (
       select other.job_name,
              count(*) filter (where ${runs}) as running,
              count(*) filter (where ${alone}) as running_alone,
              ${since(runs)} as since,
              ${since(alone)} as since_alone,
              bool_or(${asked}) filter (where ${runs}) as asked_for,
              bool_or(${asked}) filter (where ${alone}) as asked_for_alone
       from   ${jobRuns} other
       cross  join clock
       where  other.job_name = any (array(select job_name from due where parallel is not null))
       and    ${isUnderWay('other', 'clock.now')}
       group  by other.job_name
     )`;
}

/** Of one candidate; a job without a limit is never busy. */
function busyOf(due: string): string {
  const of = (beside: string, alone: string) => `case when ${due}.overlap = 'allow' then busy.${beside} else busy.${alone} end`;
  return `coalesce(${of('running', 'running_alone')}, 0) as running,
             (${of('since', 'since_alone')})[${due}.parallel] as busy_since,
              coalesce(${of('asked_for', 'asked_for_alone')}, false) as asked_for`;
}

const NOT_BUSY = `0 as running, null::timestamptz as busy_since, false as asked_for`;

function queuedOf(jobRuns: string, due: string): string {
  return `(select count(*)
              from   ${jobRuns} other
              where  ${due}.overlap = 'queue'
              and    other.job_name = ${due}.job_name
              and    other.status = 'queued'
              and    other.trigger in ('schedule', 'external'))`;
}

const PLACES_FOR_ALL = `(select judged.*, false as placeless, false as first_is_placeless from judged)`;

/** Whether those that could start have a place of their concurrency group. */
function placelessOfGroups(tables: Tables): string {
  return `(select placeless.*, bool_or(placeless) over (partition by job_name, overlap) as first_is_placeless
              from  (select judged.*, verdict = 'claimed' and not ${groupHasPlace(tables, 'judged')} as placeless
                     from  (select judged.*, row_number() over (partition by concurrency_group, verdict order by starts_at, job_name, fire_time) as group_turn
                            from   judged) judged) placeless)`;
}

/** What waits of an earlier occurrence gives way to the newest one; what runs is told to stop, and keeps its lease until it has. */
function replacedRuns(tables: Tables): string {
  return `replaced as (
       update ${tables.jobRuns} old
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
     )`;
}
