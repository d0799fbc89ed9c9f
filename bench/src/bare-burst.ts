import pg from 'pg';
import { walPosition } from './database.js';
import { median } from './sampling.js';

/** What the least possible burst came to. */
export interface BareBurst {
  readonly millis: number;
  readonly statementsEach: number;
  readonly walBytesEach: number;
}

/**
 * The floor of a burst: so many connections insert all rows at once, `on conflict do nothing`, and end those that they
 * won.
 * One table with one key: no lease, no history, no schedule to compute.
 */
export async function bareBurst(
  client: pg.Client,
  url: string,
  { rows, connections, samples }: { rows: number; connections: number; samples: number },
): Promise<BareBurst> {
  await client.query(
    'create table bare_runs (job_name text, fire_time timestamptz, owner integer, finished_at timestamptz, primary key (job_name, fire_time))',
  );
  const names = Array.from({ length: rows }, (_, index) => `job-${index}`);
  const clients = await Promise.all(Array.from({ length: connections }, () => connected(url)));
  try {
    const millis: number[] = [];
    const wal = await walPosition(client);
    for (let sample = 0; sample <= samples; sample++) {
      const fireTime = new Date(Date.UTC(2026, 0, 1) + sample * 1_000).toISOString();
      const startedAt = performance.now();
      await Promise.all(clients.map((one, owner) => claimAndEnd(one, names, fireTime, owner)));
      if (sample > 0) millis.push(performance.now() - startedAt);
    }
    return {
      millis: median(millis),
      statementsEach: (2 * connections) / rows,
      walBytesEach: ((await walPosition(client)) - wal) / rows / (samples + 1),
    };
  } finally {
    await Promise.all(clients.map((one) => one.end()));
    await client.query('drop table bare_runs');
  }
}

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
}

async function claimAndEnd(
  client: pg.Client,
  names: readonly string[],
  fireTime: string,
  owner: number,
): Promise<void> {
  const { rows } = await client.query<{ job_name: string }>(
    `insert into bare_runs (job_name, fire_time, owner)
     select name, $2, $3
     from   unnest($1::text[]) as given (name)
     on conflict do nothing
     returning job_name`,
    [names, fireTime, owner],
  );
  await client.query(
    `update bare_runs
     set    finished_at = clock_timestamp()
     where  job_name = any($1::text[])
     and    fire_time = $2`,
    [rows.map(({ job_name }) => job_name), fireTime],
  );
}
