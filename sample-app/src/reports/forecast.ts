/**
 * How much of what is owed will be paid, by trying it out many times. Nothing here ever waits: while it runs, the event
 * loop stands still, no timer fires and no answer of the database is read.
 */
export function forecastCents(amounts: readonly number[], forMs: number): number {
  const end = performance.now() + forMs;
  let sum = 0;
  let trials = 0;
  while (performance.now() < end) {
    for (const amount of amounts) {
      if (Math.random() < 0.8) sum += amount;
    }
    trials++;
  }
  return Math.round(sum / trials);
}
