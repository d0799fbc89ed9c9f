import type { Benchmark, Effort, Figure } from './benchmark.js';
import { bareBurst } from './bare-burst.js';
import { burstsOf } from './burst.js';
import type pg from 'pg';
import { onConnection, onServer } from './database.js';
import { median } from './sampling.js';

const REPLICAS = [1, 3, 10, 30];

/** How many statements each run costs, the more replicas there are: the winner's, and what the losers ask. */
export const replicas: Benchmark = {
  name: 'replicas',
  about: '500 jobs due at one instant on 1 to 30 replicas: statements a run, and what is written for nothing',

  async run({ quick, samples }: Effort): Promise<Figure[]> {
    const figures: Figure[] = [];
    for (const count of quick ? [1] : REPLICAS)
      figures.push(...(await figuresOf(count, quick ? 20 : 500, quick ? 1 : Math.min(samples, 5))));
    return figures;
  },
};

async function figuresOf(count: number, jobs: number, samples: number): Promise<Figure[]> {
  return onServer(async (url) => {
    const floor = await onConnection(url, (client) =>
      bareBurst(client, url, { rows: jobs, connections: count, samples }),
    );
    const bursts = await burstsOf(url, { jobs, everySeconds: count > 10 ? 15 : 5, samples, replicas: count });
    const { dead, rows } = await onConnection(url, deadTuples);
    return [
      {
        name: `replicas.statements-${count}`,
        value: median(bursts.map(({ statementsEach }) => statementsEach)),
        unit: 'a run',
        floor: floor.statementsEach,
        reach: 1,
      },
      {
        name: `replicas.last-${count}`,
        value: median(bursts.map(({ lastMs }) => lastMs)),
        unit: 'ms',
        floor: floor.millis,
        reach: 2_000,
      },
      {
        name: `replicas.wal-${count}`,
        value: median(bursts.map(({ walBytesEach }) => walBytesEach)),
        unit: 'bytes',
        floor: floor.walBytesEach,
        reach: 2_000,
      },
      // The end of each run leaves one version of its row behind.
      { name: `replicas.dead-tuples-${count}`, value: dead / rows, unit: 'a run', floor: 1, reach: 1.1 },
    ];
  });
}

/** Of all runs there were, also before it was counted. */
async function deadTuples(client: pg.Client): Promise<{ dead: number; rows: number }> {
  await client.query('select pg_stat_clear_snapshot()');
  const { rows } = await client.query<{ dead: number; rows: number }>(
    `select sum(n_tup_upd + n_tup_del)::integer as dead,
           (select count(*) from job_runs)::integer as rows
     from   pg_stat_user_tables
     where  relname like 'job\\_runs\\_%'`,
  );
  return rows[0]!;
}
