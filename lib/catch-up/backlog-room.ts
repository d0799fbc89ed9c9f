/**
 * How near a live occurrence is too near for an instance with one slot, in milliseconds: the reaper looks no oftener.
 */
const TOO_NEAR_MS = 500;

/**
 * How many runs an instance may start of a backlog (catch-up, backfill), beside what it has in hand. A quarter of its
 * slots, and at least one, is kept for live occurrences; the only slot of an instance is given when none is due.
 * @param untilLiveMs milliseconds until the next live occurrence of any job may start; not above 0 when one is due
 */
export function backlogRoom(slots: number, taken: number, untilLiveMs: number): number {
  if (slots === 1) return taken === 0 && untilLiveMs > TOO_NEAR_MS ? 1 : 0;
  const kept = Math.max(1, Math.floor(slots / 4));
  return Math.max(0, slots - kept - taken);
}
