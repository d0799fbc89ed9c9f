/**
 * Why other instances need not wait for their next poll. `runs`: something waits that may start now. `jobs`: a schedule or a
 * flag has changed, or there is a backfill. `told`: a handler is to be told to stop.
 */
export type WakeUp = 'runs' | 'jobs' | 'told';

/** Each of them: after a time in which none was heard. */
export const EVERY_WAKE_UP: readonly WakeUp[] = ['runs', 'jobs', 'told'];

/** @returns null for what is for another instance, and for what this version does not know */
export function readWakeUp(payload: string | undefined, instanceId: string): WakeUp | null {
  if (payload === 'runs' || payload === 'jobs') return payload;
  return payload === `told ${instanceId}` ? 'told' : null;
}
