import type { OwnedRun } from '../../domain/runs/run.js';

/** The first four parameters of every fenced statement: job, fire time, attempt, instance. */
export function fenceOf(run: OwnedRun): [string, string, number, string] {
  return [run.jobName, run.fireTime.toISOString(), run.attempt, run.instanceId];
}
