import { setTimeout as sleep } from 'node:timers/promises';
import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onServer } from './database.js';
import { Fleet } from './fleet.js';
import type { Start } from './replica.messages.js';

/** From the end of the dead replica's lease; that is as long as the lease at most, after the kill. */
const REACH_MS = 500;

/** A replica is killed in mid-run: how long until another has begun the next attempt, its lease subtracted. */
export const takeOver: Benchmark = {
  name: 'take-over',
  about: 'SIGKILL in mid-run with leases of 2 and 10 s: from the end of the lease at the latest until the next attempt has begun',

  async run({ quick }: Effort): Promise<Figure[]> {
    const figures: Figure[] = [];
    for (const [leaseMs, rounds] of quick ? [[1_000, 1]] as const : [[2_000, 12], [10_000, 5]] as const) {
      const waits: number[] = [];
      for (let round = 0; round < rounds; round++) waits.push(await waitOf(leaseMs));
      // Of a handful of rounds the slowest is the 99th percentile.
      figures.push({ name: `take-over.after-lease-${leaseMs / 1_000}s`, value: Math.max(0, Math.max(...waits) - leaseMs), unit: 'ms', floor: 0, reach: REACH_MS });
    }
    return figures;
  },
};

/** @returns milliseconds from the kill to the start of the next attempt */
async function waitOf(leaseMs: number): Promise<number> {
  return onServer(async (url) => {
    const jobs = [{ name: 'long', expression: '* * * * * *', options: { lease: leaseMs, overlap: 'forbid' as const, missed: 'skip' as const } }];
    const fleet = await Fleet.start(3, { url, jobs, handlerMs: 10 * leaseMs });
    try {
      const { owner, start } = await running(fleet);
      // Anywhere between two renewals.
      await sleep(Math.random() * leaseMs);
      const killedAt = Date.now();
      fleet.kill(owner);
      const next = await nextAttempt(fleet, start, killedAt + 4 * leaseMs + 10_000);
      return next.at - killedAt;
    } finally {
      await fleet.end();
    }
  });
}

async function running(fleet: Fleet): Promise<{ owner: number; start: Start }> {
  for (let look = 0; look < 300; look++) {
    const reports = await fleet.reports();
    const owner = reports.findIndex(({ starts }) => starts.length > 0);
    if (owner >= 0) return { owner, start: reports[owner]!.starts[0]! };
    await sleep(20);
  }
  throw new Error('No handler began.');
}

async function nextAttempt(fleet: Fleet, { fireTime }: Start, until: number): Promise<Start> {
  while (Date.now() < until) {
    const next = (await fleet.reports()).flatMap(({ starts }) => starts).find((start) => start.fireTime === fireTime && start.attempt > 1);
    if (next) return next;
    await sleep(20);
  }
  throw new Error('No other attempt began.');
}
