import { recordset } from './claim-recordset.js';
import { isOff } from '../jobs/flag-off.js';
import { isHeld } from '../jobs/held.js';
import { isRemoved } from '../jobs/is-removed.js';
import type { Tables } from '../tables.js';
import { backfillHasPlace, groupHasPlace, hasPlaceBeside, leavesTheWayFree, nothingInTheWay, precedence, runsAlone } from './waiting-rules.js';

/** A checkpoint up to this size, as it is stored, comes with the claim; a larger one is read when its handler asks for it. */
const MOST_CARRIED_BYTES = 8_192;

/**
 * Starts the next attempt of each candidate that still waits as it was seen, and keeps what the last attempt came to.
 * @param candidates SQL for a jsonb array of `WaitingRun`
 * @param instanceId SQL for a jsonb text
 */
export function startWaiting(tables: Tables, candidates: string, instanceId: string): string {
  const { jobRuns, jobSchedule, jobFlags } = tables;
  return `
     update ${jobRuns} run
     -- One that waits for its pages alone is theirs again: its tick has done its work.
     set    status = case when run.pages is null then 'running' else 'fanned_out' end,
            reason = null,
            attempt = run.attempt + 1,
            claimed_by = ${instanceId} #>> '{}',
            concurrency_group = candidate.concurrency_group,
            started_at = clock_timestamp(),
            finished_at = null,
            lease_until = case when run.pages is null then clock_timestamp() + candidate.lease_ms * interval '1 millisecond' end,
            next_attempt_at = null,
            cancel_requested_at = null,
            cancel_reason = null,
            error = null,
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
               null as reason, case run.status when 'running' then 'claimed' else 'fanned_out' end as verdict, run.pages, clock_timestamp() as now`;
}
