import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Cluster, SLACK_MS } from './harness/cluster.js';
import { EVERY_SECOND } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import { LockWaits } from './harness/lock-waits.js';
import type { Replica } from './harness/replica.js';
import type { ReplicaJob } from './replica/settings.js';

const SCHEMA = 'The Scheduler';
const RACED = names('raced', 40);
const SECONDS = 5;
const BATCHED = names('batched', 60);
const NAMES = names('replica', 10);

/** Ten processes are started once; each test looks at something else they do. */
describe('ten replicas', () => {
  let cluster: Cluster;
  let replicas: Replica[];
  let waits: LockWaits | undefined;

  beforeAll(async () => {
    cluster = await Cluster.create({ schema: SCHEMA });
    const raced: ReplicaJob[] = RACED.map((name) => ({
      name,
      cron: EVERY_SECOND,
      overlap: 'allow',
      steps: [{ effect: name }],
    }));
    const batched: ReplicaJob[] = BATCHED.map((name) => ({
      name,
      cron: '*/3 * * * * *',
      overlap: 'forbid',
      steps: [],
    }));
    // Nothing is taken over here, however busy the machine is.
    replicas = await cluster.startAll(NAMES, {
      jobs: [...raced, ...batched],
      scheduler: { defaults: { lease: '30s' } },
    });
    waits = new LockWaits(cluster.database);
  });
  afterAll(async () => {
    waits?.stop();
    await cluster.end();
  });

  it('come up together on an empty database: the tables are made once, and one row for each job', async () => {
    const { database } = cluster;
    expect(replicas.filter(({ isAlive }) => isAlive)).toHaveLength(10);
    const migrations = await database.query<{ name: string }>(
      `select name from "${SCHEMA}".distributed_cron_migrations`,
    );
    expect(new Set(migrations.map(({ name }) => name)).size).toBe(migrations.length);
    const jobs = await database.query<{ name: string }>(`select name from "${SCHEMA}".job_schedule order by name`);
    expect(jobs.map(({ name }) => name)).toEqual([...RACED, ...BATCHED].sort());
    const partitions = await database.query<{ parent: string; count: number }>(
      `select inhparent::regclass::text as parent, count(*)::integer as count from pg_inherits
       where inhparent in ('"${SCHEMA}".job_runs'::regclass, '"${SCHEMA}".receipts'::regclass) group by 1 order by 1`,
    );
    expect(partitions).toHaveLength(2);
    expect(partitions[0]!.count).toBeGreaterThanOrEqual(2);
    expect(partitions[1]!.count).toBe(partitions[0]!.count);
    expect(replicas.flatMap((replica) => replica.heard('loop.failed'))).toEqual([]);
  });

  it('G1 G2 race for 200 occurrences, and each is run exactly once and not early', async () => {
    const from = Math.ceil((await cluster.ledger.now()).getTime() / 1_000) * 1_000;
    const seconds = Array.from({ length: SECONDS }, (_, index) => from + index * 1_000);
    const until = seconds.at(-1)!;
    const inWindow = `job_name like 'raced%' and fire_time between $1 and $2`;
    const window = [new Date(from).toISOString(), new Date(until).toISOString()];
    await eventually('200 occurrences to be done', async () => {
      const [row] = await cluster.database.query<{ done: number }>(
        `select count(*)::integer as done from "${SCHEMA}".job_runs where ${inWindow} and status = 'done'`,
        window,
      );
      return row!.done >= RACED.length * SECONDS;
    });

    const runs = await cluster.database.query<{
      job_name: string;
      fire_time: Date;
      status: string;
      attempt: number;
      claimed_by: string;
      early: boolean;
    }>(
      `select job_name, fire_time, status, attempt, claimed_by, started_at < fire_time as early from "${SCHEMA}".job_runs where ${inWindow}`,
      window,
    );
    const expected = RACED.flatMap((name) => seconds.map((second) => `${name} ${second}`)).sort();
    expect(runs.map(({ job_name, fire_time }) => `${job_name} ${fire_time.getTime()}`).sort()).toEqual(expected);
    expect(runs.filter(({ status, attempt, early }) => status !== 'done' || attempt !== 1 || early)).toEqual([]);
    const effects = await cluster.database.query<{ job: string; fire_time: Date }>(
      `select job, fire_time from public.effects where job like 'raced%' and fire_time between $1 and $2`,
      window,
    );
    expect(effects.map(({ job, fire_time }) => `${job} ${fire_time.getTime()}`).sort()).toEqual(expected);
  });

  it('trap 2, trap 22: claim the same 60 jobs in the same second without a deadlock or a long wait', async () => {
    await eventually('three rounds of all batched jobs', async () => {
      const rounds = await cluster.database.query(
        `select from "${SCHEMA}".job_runs where job_name like 'batched%' and status in ('done', 'skipped')
         group by fire_time having count(*) = ${BATCHED.length}`,
      );
      return rounds.length >= 3;
    });
    expect(await cluster.ledger.deadlocks()).toBe(0);
    expect(waits!.longestMs).toBeLessThan(2 * SLACK_MS);
    expect(replicas.flatMap((replica) => replica.heard('loop.failed'))).toEqual([]);
  });

  it('G1 losers write nothing: as many rows were inserted as there are', async () => {
    // A session reports what it did when it ends, at the latest.
    expect(await Promise.all(replicas.map((replica) => replica.stop()))).toEqual(
      NAMES.map(() => ({ code: 0, signal: null })),
    );
    const [rows] = await cluster.database.query<{ count: number }>(
      `select count(*)::integer as count from "${SCHEMA}".job_runs`,
    );
    await eventually('the statistics of all sessions', async () => (await insertedRows()) >= rows!.count, {
      seen: async () => ({ rows, inserted: await insertedRows() }),
    });
    expect(await insertedRows()).toBe(rows!.count);
    expect(await cluster.ledger.deadlocks()).toBe(0);
  });

  async function insertedRows(): Promise<number> {
    const [row] = await cluster.database.query<{ count: number }>(
      `select sum(n_tup_ins)::integer as count from pg_stat_user_tables where schemaname = $1 and relname like 'job_runs_2%'`,
      [SCHEMA],
    );
    return row!.count;
  }
});

function names(what: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${what}-${String(index).padStart(2, '0')}`);
}
