import type { OwnedRun } from '../../domain/runs/run.js';

/** The first four parameters of every fenced statement: job, fire time, attempt, instance. */
export function fenceOf(run: OwnedRun): [string, string, number, string] {
  return [run.jobName, run.fireTime.toISOString(), run.attempt, run.instanceId];
}

/** SQL for: the run is this process' still. The first four parameters are its fence. */
export const IS_OURS = `job_name = $1
       and    fire_time = $2
       and    status = 'running'
       and    attempt = $3
       and    claimed_by = $4
       and    lease_until > clock_timestamp()`;
