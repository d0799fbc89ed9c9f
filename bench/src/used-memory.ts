import { setImmediate } from 'node:timers/promises';

/**
 * What this process cannot do without: the heap and what is kept beside it, once what is garbage is gone. Wants
 * `--expose-gc`.
 */
export async function usedMegabytes(): Promise<number> {
  // What ends in a callback is garbage only after it, and what finalizers let go only after the next collection.
  for (let round = 0; round < 5; round++) {
    await setImmediate();
    globalThis.gc!();
  }
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / 1e6;
}
