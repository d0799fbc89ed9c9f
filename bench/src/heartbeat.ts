import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onConnection, onServer, StatementCount } from './database.js';
import { Fleet } from './fleet.js';

const LEASE_MS = 3_000;

/** A thousand runs under way on one instance, and its event loop blocked for longer than three leases. */
export const heartbeat: Benchmark = {
  name: 'heartbeat',
  about:
    '1,000 running handlers on one instance: statements a beat, and leases lost while the event loop is blocked for 10 s',

  async run({ quick }: Effort): Promise<Figure[]> {
    const runs = quick ? 20 : 1_000;
    const blockedMs = quick ? 2_000 : 10_000;
    return onServer((url) =>
      onConnection(url, async (client) => {
        const jobs = Array.from({ length: runs }, (_, index) => ({
          name: `job-${index}`,
          expression: '*/10 * * * * *',
          options: { lease: LEASE_MS, renewEvery: LEASE_MS / 3, overlap: 'forbid' as const },
        }));
        const fleet = await Fleet.start(1, { url, jobs, handlerMs: 120_000, scheduler: { maxConcurrentRuns: runs } });
        try {
          for (let waited = 0; (await running(client)) < runs; waited++) {
            if (waited > 200) throw new Error('Not all runs began.');
            await sleep(200);
          }
          await sleep(2_000);
          const count = await StatementCount.on(client);
          await count.reset();
          fleet.block(blockedMs);
          await sleep(blockedMs);
          const asked = await count.read();
          const kept = await running(client);
          const beats = blockedMs / (LEASE_MS / 3);
          return [
            // What else an idle replica asks would be counted, too: its event loop is blocked.
            { name: 'heartbeat.statements', value: asked / beats, unit: 'a beat', floor: 1, reach: 1.5 },
            { name: 'heartbeat.lost', value: runs - kept, unit: 'a run', floor: 0, reach: 0.001 },
          ];
        } finally {
          await fleet.end();
        }
      }),
    );
  },
};

async function running(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ running: number }>(
    `select count(*)::integer as running from job_runs where status = 'running' and attempt = 1 and lease_until > clock_timestamp()`,
  );
  return rows[0]!.running;
}
