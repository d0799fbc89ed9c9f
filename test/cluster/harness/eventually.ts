import { setTimeout as pause } from 'node:timers/promises';

const LOOK_EVERY_MS = 50;

/**
 * Waits until the database says so: for what no replica tells, because none is left.
 * @param look undefined, null or false: not yet
 */
export async function eventually<Found>(
  what: string,
  look: () => Promise<Found | undefined | null | false>,
  { withinMs = 60_000, seen }: { withinMs?: number; seen?: () => Promise<unknown> } = {},
): Promise<Found> {
  const end = performance.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== null && found !== false) return found;
    if (performance.now() > end)
      throw new Error(`Waited ${withinMs} ms for ${what}. Seen last: ${JSON.stringify(await seen?.())}`);
    await pause(LOOK_EVERY_MS);
  }
}
