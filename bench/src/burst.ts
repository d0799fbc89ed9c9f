import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Benchmark, Effort, Figure } from './benchmark.js';
import { bareBurst } from './bare-burst.js';
import { onConnection, onServer, StatementCount, walPosition } from './database.js';
import { Fleet } from './fleet.js';
import { median } from './sampling.js';

/** One size of burst, and what it should stay within. */
interface Size {
  readonly jobs: number;
  readonly everySeconds: number;
  readonly reachMs: number;
}

const SIZES: readonly Size[] = [
  { jobs: 500, everySeconds: 5, reachMs: 200 },
  { jobs: 5_000, everySeconds: 20, reachMs: 2_000 },
];

const REPLICAS = 3;

/** What one occurrence of all jobs came to. */
interface Burst {
  /** From the fire time until the last run's end was written, in milliseconds. */
  readonly lastMs: number;
  readonly firstMs: number;
  readonly statementsEach: number;
  readonly walBytesEach: number;
  /** Of the replica that ran most, 0 to 1. */
  readonly most: number;
}

/** Everything due at one instant, on three replicas with the settings they come with. */
export const burst: Benchmark = {
  name: 'burst',
  about: '500 and 5,000 jobs due at one instant on 3 replicas with default settings: until the last end is written',

  async run(effort: Effort): Promise<Figure[]> {
    const figures: Figure[] = [];
    for (const size of effort.quick ? [{ ...SIZES[0]!, jobs: 20, everySeconds: 2 }] : SIZES)
      figures.push(...(await figuresOf(size, effort)));
    return figures;
  },
};

async function figuresOf({ jobs, everySeconds, reachMs }: Size, { samples }: Effort): Promise<Figure[]> {
  return onServer(async (url) => {
    const floor = await onConnection(url, (client) =>
      bareBurst(client, url, { rows: jobs, connections: REPLICAS, samples }),
    );
    const bursts = await burstsOf(url, { jobs, everySeconds, samples });
    const middle = (value: (one: Burst) => number) => median(bursts.map(value));
    return [
      {
        name: `burst.last-of-${jobs}`,
        value: middle(({ lastMs }) => lastMs),
        unit: 'ms',
        floor: floor.millis,
        reach: reachMs,
      },
      {
        name: `burst.statements-of-${jobs}`,
        value: middle(({ statementsEach }) => statementsEach),
        unit: 'a run',
        floor: floor.statementsEach,
        reach: 0.2,
      },
      {
        name: `burst.most-of-${jobs}`,
        value: middle(({ most }) => most),
        unit: 'share',
        floor: 1 / REPLICAS,
        reach: 0.5,
      },
    ];
  });
}

/** The first occurrence does not count: in it the code is cold. */
export async function burstsOf(
  url: string,
  {
    jobs,
    everySeconds,
    samples,
    replicas = REPLICAS,
  }: { jobs: number; everySeconds: number; samples: number; replicas?: number },
): Promise<Burst[]> {
  const seconds = Array.from({ length: 60 / everySeconds }, (_, index) => index * everySeconds).join();
  const plan = {
    url,
    jobs: Array.from({ length: jobs }, (_, index) => ({ name: `job-${index}`, expression: `${seconds} * * * * *` })),
  };
  return onConnection(url, async (client) => {
    const fleet = await Fleet.start(replicas, plan);
    try {
      const count = await StatementCount.on(client);
      const bursts: Burst[] = [];
      for (let round = 0; round <= samples; round++) {
        const one = await next(client, fleet, count, jobs, everySeconds);
        if (round > 0) bursts.push(one);
      }
      if (process.env.BENCH_VERBOSE) console.error(JSON.stringify(bursts), await count.most());
      return bursts;
    } finally {
      await fleet.end();
    }
  });
}

/** Looks at the database only when the burst must be over: looking costs what is measured. */
async function next(
  client: pg.Client,
  fleet: Fleet,
  count: StatementCount,
  jobs: number,
  everySeconds: number,
): Promise<Burst> {
  const every = everySeconds * 1_000;
  const now = Date.now();
  // Half an interval of peace before it, so that what is left of the one before is not counted.
  const fireTime = Math.ceil((now + every / 4) / every) * every;
  await sleep(fireTime - every / 8 - now);
  await fleet.reports();
  const wal = await walPosition(client);
  await count.reset();
  await sleep(fireTime + every / 2 - Date.now());
  let ended = await ends(client, fireTime);
  for (; ended.done < jobs && Date.now() < fireTime + 60_000; ended = await ends(client, fireTime)) await sleep(500);
  if (ended.done !== jobs) throw new Error(`${ended.done} of ${jobs} runs ended.`);
  const asked = await count.read();
  const starts = (await fleet.reports()).map((report) => report.starts.filter((start) => start.fireTime === fireTime));
  return {
    lastMs: ended.lastMs,
    firstMs: Math.min(...starts.flat().map(({ at }) => at)) - fireTime,
    statementsEach: asked / jobs,
    walBytesEach: ((await walPosition(client)) - wal) / jobs,
    most: Math.max(...starts.map(({ length }) => length)) / jobs,
  };
}

async function ends(client: pg.Client, fireTime: number): Promise<{ done: number; lastMs: number }> {
  const { rows } = await client.query<{ done: number; last_ms: number }>(
    `select count(*)::integer as done,
            coalesce(extract(epoch from max(finished_at) - $1::timestamptz) * 1000, 0)::float8 as last_ms
     from   job_runs
     where  fire_time = $1
     and    status = 'done'`,
    [new Date(fireTime).toISOString()],
  );
  return { done: rows[0]!.done, lastMs: rows[0]!.last_ms };
}
