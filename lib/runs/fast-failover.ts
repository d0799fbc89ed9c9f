import type { RunKey } from '../options/run.js';

/**
 * How fast failover is safe. The thread of the heartbeat holds an advisory lock, its lifeline, on a session of its own,
 * and
 * proves now and then that this session is there. All times below are milliseconds by monotonic clocks.
 *
 * - A proof sent at s is carried out at p ≥ s, by a session that holds the lock then. Without a newer one the runs of
 * the
 *   instance are aborted at s + {@link GRACE_MS}. A claim counts as the first proof for its own run.
 * - Each session has a key of its own, which stands in the row of the instance before its first proof is answered,
 * gives way
 *   there to that of a later session only, and is never locked again once it is free. So whoever finds the lock of that
 * key free at f, and the same key in the row at t, knows
 *   that nothing was proved in between: s ≤ p ≤ f.
 * - A run is taken over at t ≥ f + {@link GONE_FOR_MS}, f being the first look that found both the run and the lock
 * free. Its
 *   owner has aborted it by s + GRACE_MS ≤ f + GRACE_MS < t.
 *
 * The fences of the run and its receipts hold besides, as after a lease that ran out.
 */
export const GRACE_MS = 1_100;

/** See {@link GRACE_MS}; the difference is for the handler to hear of it. */
export const GONE_FOR_MS = 1_400;

/** Between two proofs while a run is in flight. */
export const PROVE_EVERY_MS = 250;

/** Between two looks while runs of others are under way. */
export const LOOK_EVERY_MS = 250;

/** A run whose owner's liveness lock is not there. */
export interface GoneRun extends RunKey {
  readonly attempt: number;
  readonly instanceId: string;
  /** The key of the lock that nobody holds. */
  readonly lifeline: string;
}

/** Since when runs have been seen without their owner, by what names them, milliseconds. */
export type GoneSince = ReadonlyMap<string, number>;

/** @param at when the answer of this look had come: the database had looked before */
export function stillGone(before: GoneSince, found: readonly GoneRun[], at: number): GoneSince {
  return new Map(found.map((run) => [nameOf(run), before.get(nameOf(run)) ?? at]));
}

/** Those that may be taken over now. */
export function goneForGood(found: readonly GoneRun[], since: GoneSince, now: number): GoneRun[] {
  return found.filter((run) => dueAt(run, since) <= now);
}

/** When the first of those that may not be taken over yet may be; Infinity when there is none. */
export function nextGone(found: readonly GoneRun[], since: GoneSince, now: number): number {
  return Math.min(Infinity, ...found.map((run) => dueAt(run, since)).filter((due) => due > now));
}

/** When the first of them was seen without its owner. */
export function firstGone(runs: readonly GoneRun[], since: GoneSince): number {
  return Math.min(...runs.map((run) => dueAt(run, since))) - GONE_FOR_MS;
}

function dueAt(run: GoneRun, since: GoneSince): number {
  return (since.get(nameOf(run)) ?? Infinity) + GONE_FOR_MS;
}

function nameOf({ jobName, fireTime, attempt, lifeline }: GoneRun): string {
  return JSON.stringify([jobName, fireTime.getTime(), attempt, lifeline]);
}
