import { LEASE_MS, REAPER_PASS_MS } from '../../src/schedules.js';
import type { Strike } from '../disasters.js';
import { MAILING } from '../jobs.js';
import { startsOf, type RunRow } from './runs.js';

/** One lease, one pass of the reaper, and two seconds that a busy machine may take for both. */
export const TAKE_OVER_WITHIN_S = (LEASE_MS + REAPER_PASS_MS) / 1_000 + 2;

/** A run whose owner was struck and that another instance went on with. */
export interface TakeOver {
  readonly job: string;
  readonly fireTime: string;
  readonly struck: Strike['kind'];
  readonly from: string;
  readonly by: string;
  readonly attempt: number;
  /** From the strike to the start of the next attempt. */
  readonly seconds: number;
}

/** The take-over after each strike, null where there was none. */
export function findTakeOvers(
  strikes: readonly Strike[],
  runs: readonly RunRow[],
  nameOf: (instanceId: string) => string,
): (TakeOver | null)[] {
  return strikes.map((strike) => {
    const run = runs.find(({ job, fireTime }) => job === MAILING && fireTime.toISOString() === strike.fireTime);
    const next = run && startsOf(run).find(({ startedAt }) => startedAt > strike.at);
    const struck = run?.earlier.find(({ attempt }) => attempt === (next?.attempt ?? 0) - 1);
    if (!next || !struck || struck.claimedBy === next.claimedBy) return null;
    return {
      job: MAILING,
      fireTime: strike.fireTime,
      struck: strike.kind,
      from: strike.replica,
      by: nameOf(next.claimedBy),
      attempt: next.attempt,
      seconds: Math.round((next.startedAt.getTime() - strike.at.getTime()) / 10) / 100,
    };
  });
}
