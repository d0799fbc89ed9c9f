import { setTimeout as sleep } from 'node:timers/promises';
import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onConnection, onServer } from './database.js';
import { Fleet } from './fleet.js';
import { inFreshProcess, quantile } from './sampling.js';

const REACH_MS = { p50: 4, p99: 10 };

const JOBS = [1, 20];

const REPLICAS = [1, 3];

/** How late handlers begin, second by second. Without jitter; the database and the replicas are on one clock. */
export const fireDelay: Benchmark = {
  name: 'fire-delay',
  about:
    'handler start minus fire time: 1 and 20 jobs each second on 1 and 3 replicas; the floor is a timer and one bare insert',

  async run({ quick }: Effort): Promise<Figure[]> {
    const fires = quick ? 2 : 60;
    const figures: Figure[] = [];
    for (const jobs of quick ? [1] : JOBS) {
      for (const replicas of quick ? [1] : REPLICAS) figures.push(...(await figuresOf(jobs, replicas, fires)));
    }
    return figures;
  },
};

async function figuresOf(jobs: number, replicas: number, fires: number): Promise<Figure[]> {
  return onServer(async (url) => {
    await onConnection(url, (client) =>
      client.query('create table bare_runs (job_name text, fire_time timestamptz, primary key (job_name, fire_time))'),
    );
    const floor = await inFreshProcess<number[]>('fire-delay.sample.js', url, String(fires));
    const delays = await delaysOf(url, jobs, replicas, fires);
    return (['p50', 'p99'] as const).map((name) => {
      const at = name === 'p50' ? 0.5 : 0.99;
      return {
        name: `fire-delay.${name}-${jobs}-jobs-${replicas}-replicas`,
        value: quantile(delays, at),
        unit: 'ms' as const,
        floor: quantile(floor, at),
        reach: REACH_MS[name],
      };
    });
  });
}

/**
 * Of every handler, from a while after the start on: the first fires are cold, and the replicas do not know each other
 * yet.
 */
async function delaysOf(url: string, jobs: number, replicas: number, fires: number): Promise<number[]> {
  const plan = {
    url,
    jobs: Array.from({ length: jobs }, (_, index) => ({ name: `job-${index}`, expression: '* * * * * *' })),
    scheduler: { pollInterval: 1_000 },
  };
  const fleet = await Fleet.start(replicas, plan);
  try {
    await sleep(4_000);
    await fleet.reports();
    await sleep(fires * 1_000);
    const starts = (await fleet.reports()).flatMap((report) => report.starts);
    if (starts.length < (fires - 2) * jobs) throw new Error(`Only ${starts.length} handlers began.`);
    return starts.map(({ at, fireTime }) => at - fireTime);
  } finally {
    await fleet.end();
  }
}
