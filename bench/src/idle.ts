import { setTimeout as sleep } from 'node:timers/promises';
import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onConnection, onServer, StatementCount } from './database.js';
import { Fleet } from './fleet.js';

const REPLICAS = 3;

const SCHEDULES = [200, 5_000];

/** What nothing costs. The floor is an empty Nest application. */
export const idle: Benchmark = {
  name: 'idle',
  about:
    '3 replicas with 200 and 5,000 schedules, none due, for a minute: statements a second of all, and the processor time of each',

  async run({ quick }: Effort): Promise<Figure[]> {
    const seconds = quick ? 2 : 60;
    const figures: Figure[] = [];
    const empty = await idleOf(1, seconds, { enabled: false });
    for (const schedules of quick ? [20] : SCHEDULES) {
      const { statementsPerSecond, cpuPercent } = await idleOf(schedules, seconds);
      figures.push(
        { name: `idle.statements-${schedules}`, value: statementsPerSecond, unit: 'a second', floor: 0, reach: 0.4 },
        { name: `idle.cpu-${schedules}`, value: cpuPercent, unit: '%', floor: empty.cpuPercent, reach: 0.5 },
      );
    }
    return figures;
  },
};

async function idleOf(
  schedules: number,
  seconds: number,
  scheduler: object = {},
): Promise<{ statementsPerSecond: number; cpuPercent: number }> {
  return onServer((url) =>
    onConnection(url, async (client) => {
      const jobs = Array.from({ length: schedules }, (_, index) => ({
        name: `job-${index}`,
        expression: '0 0 29 2 *',
      }));
      const fleet = await Fleet.start(REPLICAS, { url, jobs, scheduler });
      try {
        const count = await StatementCount.on(client);
        // The start is over when all have looked at who is there, and what they do for each other's sake is done.
        await sleep(seconds > 10 ? 45_000 : 1_000);
        const before = await fleet.reports();
        await count.reset();
        await sleep(seconds * 1_000);
        const asked = await count.read();
        const after = await fleet.reports();
        if (process.env.BENCH_VERBOSE) console.error(await count.most());
        const shares = after.map(
          ({ cpuMicros, at }, index) => (cpuMicros - before[index]!.cpuMicros) / 1_000 / (at - before[index]!.at),
        );
        return {
          statementsPerSecond: asked / seconds,
          cpuPercent: (100 * shares.reduce((sum, share) => sum + share, 0)) / REPLICAS,
        };
      } finally {
        await fleet.end();
      }
    }),
  );
}
