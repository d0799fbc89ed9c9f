import type { RunKey } from '../options/run.js';
import type { Tables } from '../database/tables.js';

/** What handlers of an instance are to stop for, as {@link askedToStop} selects it. */
export interface AskedToStopRow {
  cancels: { jobName: string; fireTime: string; attempt: number; reason: string }[] | null;
  flags_off: string[] | null;
}

/** Somebody asked to cancel a run of an instance. */
export interface CancelRequest extends RunKey {
  readonly attempt: number;
  readonly reason: string;
}

/** What the handlers of an instance are to stop for. */
export interface AskedToStop {
  readonly cancels: readonly CancelRequest[];
  /** Of the flags that were asked for, those that the table has as off. */
  readonly flagsOff: readonly string[];
}

/**
 * SQL for the columns of {@link AskedToStopRow}.
 * @param instanceId SQL for a text
 * @param flags SQL for an array of names
 */
export function askedToStop({ jobRuns, jobFlags }: Tables, instanceId: string, flags: string): string {
  return `(select jsonb_agg(jsonb_build_object('jobName', job_name, 'fireTime', fire_time, 'attempt', attempt, 'reason', cancel_reason))
              from   ${jobRuns}
              where  status = 'running'
              and    claimed_by = ${instanceId}
              and    cancel_requested_at is not null) as cancels,
             (select array_agg(flag.name)
              from   ${jobFlags} flag
              where  flag.name = any (${flags})
              and    not flag.is_on) as flags_off`;
}

export function readAskedToStop({ cancels, flags_off }: AskedToStopRow): AskedToStop {
  return {
    cancels: (cancels ?? []).map((request) => ({ ...request, fireTime: new Date(request.fireTime) })),
    flagsOff: flags_off ?? [],
  };
}
