import { setTimeout as pause } from 'node:timers/promises';

/** Looks again until the expectation holds; what it fails with last is thrown after so many milliseconds. */
export async function until(expectation: () => Promise<void> | void, withinMs = 50_000): Promise<void> {
  const end = performance.now() + withinMs;
  for (;;) {
    try {
      return await expectation();
    } catch (error) {
      if (performance.now() > end) throw error;
      await pause(25);
    }
  }
}
