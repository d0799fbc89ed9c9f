import type { RunKey, RunStatus } from '../options/run.js';

/** What became of a delivery. */
export interface Delivered extends RunKey {
  /** The occurrence had its decision before: nothing was changed. */
  readonly duplicate: boolean;
  readonly status: RunStatus;
  /** Why it does not run, or not yet; null where nothing needs to be said. */
  readonly reason: string | null;
  /** The same as a sentence, for people. */
  readonly text: string;
}

/** Of those nothing follows by itself. */
const ENDED: readonly RunStatus[] = ['done', 'dead', 'skipped', 'cancelled'];

/** Whether the run is over, for good or until a person says otherwise. */
export function hasEnded({ status }: Pick<Delivered, 'status'>): boolean {
  return ENDED.includes(status);
}

export function delivered(key: RunKey, row: Pick<Delivered, 'status' | 'reason'>, duplicate: boolean): Delivered {
  const { jobName, fireTime } = key;
  const { status, reason } = row;
  const is = `${jobName} of ${fireTime.toISOString()} is ${status}${reason && status !== 'running' ? ` (${reason})` : ''}`;
  return {
    jobName,
    fireTime,
    duplicate,
    status,
    reason,
    text: `${is}${duplicate ? '; this delivery changed nothing' : ''}.`,
  };
}
