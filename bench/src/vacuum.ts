import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Benchmark, Effort, Figure } from './benchmark.js';
import { onConnection, onServer, walPosition } from './database.js';
import { doLoad, type LoadResult } from './load.js';
import { fillFigures } from './fill.js';

const FILL_FACTORS = [100, 90, 80, 70];

/** How a partition of the runs is vacuumed; by PostgreSQL's defaults unless it says otherwise. */
const SETTINGS = {
  never: 'autovacuum_enabled = off',
  default: 'fillfactor = 80',
  often: 'autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000, autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000',
};

/** As many as one of a hundred replicas claims of a thousand jobs. */
const FEW = 10;

/** A run is renewed so often, where its lease is renewed at all. */
const RENEWALS = 3;

/** What updates leave in the partition of a month, and what keeps it in order. */
export const vacuum: Benchmark = {
  name: 'vacuum',
  about: 'updates that stay in place by fill factor; and what 1,000,000 runs leave behind, by how often autovacuum passes (it looks each second, since the runs come 60 times as fast as 1,000 a minute)',

  async run({ quick }: Effort): Promise<Figure[]> {
    const figures: Figure[] = [];
    for (const fillFactor of quick ? [80] : FILL_FACTORS) figures.push(...(await inPlaceFigures(fillFactor, quick ? 500 : 20_000)));
    for (const fillFactor of quick ? (['as-made'] as const) : ([100, 80, 'as-made'] as const)) figures.push(...(await fillFigures(fillFactor, quick ? 200 : 5_000)));
    for (const [name, settings] of Object.entries(quick ? { default: SETTINGS.default } : SETTINGS)) figures.push(...(await passFigures(name, settings, quick ? 500 : 1_000_000)));
    return figures;
  },
};

async function inPlaceFigures(fillFactor: number, runs: number): Promise<Figure[]> {
  const renewed = await loaded({ settings: `fillfactor = ${fillFactor}, autovacuum_enabled = off`, runs, batch: FEW, renewals: RENEWALS });
  const ended = await loaded({ settings: `fillfactor = ${fillFactor}, autovacuum_enabled = off`, runs, batch: FEW, renewals: 0 });
  const { rowBytes } = renewed;
  return [
    { name: `vacuum.moved-by-renewals-${fillFactor}`, value: 1 - renewed.inPlace / (RENEWALS * runs), unit: 'share', floor: 0, reach: 0.1 },
    { name: `vacuum.moved-by-ends-${fillFactor}`, value: 1 - ended.inPlace / runs, unit: 'share', floor: 0, reach: 1 },
    { name: `vacuum.bytes-renewed-${fillFactor}`, value: renewed.tableBytes / runs, unit: 'bytes', floor: rowBytes, reach: 3 * rowBytes },
    { name: `vacuum.log-renewed-${fillFactor}`, value: renewed.logBytes / runs, unit: 'bytes', floor: rowBytes, reach: 20 * rowBytes },
    { name: `vacuum.log-${fillFactor}`, value: ended.logBytes / runs, unit: 'bytes', floor: rowBytes, reach: 10 * rowBytes },
    { name: `vacuum.bytes-${fillFactor}`, value: ended.tableBytes / runs, unit: 'bytes', floor: rowBytes, reach: 3 * rowBytes },
  ];
}

async function passFigures(name: string, settings: string, runs: number): Promise<Figure[]> {
  const { mostDead, passes, tableBytes, indexBytes, logBytes, rowBytes, took } = await loaded({ settings, runs, batch: 100, renewals: 0 });
  return [
    { name: `vacuum.dead-${name}`, value: mostDead / runs, unit: 'a run', floor: 0, reach: 0.25 },
    { name: `vacuum.passes-${name}`, value: passes, unit: 'times', floor: 0, reach: 100 },
    { name: `vacuum.table-${name}`, value: tableBytes / runs, unit: 'bytes', floor: rowBytes, reach: 3 * rowBytes },
    { name: `vacuum.indexes-${name}`, value: indexBytes / runs, unit: 'bytes', floor: 0, reach: 2 * rowBytes },
    { name: `vacuum.log-${name}`, value: logBytes / runs, unit: 'bytes', floor: rowBytes, reach: 10 * rowBytes },
    { name: `vacuum.claim-${name}`, value: took.claimMs, unit: 'ms', floor: 0, reach: 20 },
    { name: `vacuum.end-${name}`, value: took.endMs, unit: 'ms', floor: 0, reach: 20 },
    { name: `vacuum.outlook-${name}`, value: took.outlookMs, unit: 'ms', floor: 0, reach: 5 },
  ];
}

interface Loaded {
  /** Updates that changed no index: the new version is on the page of the old one. */
  readonly inPlace: number;
  /** The most dead versions that were there at a time. */
  readonly mostDead: number;
  readonly passes: number;
  readonly tableBytes: number;
  readonly indexBytes: number;
  readonly logBytes: number;
  /** Of one row by itself. */
  readonly rowBytes: number;
  readonly took: LoadResult;
}

/** A server of its own for each: what one leaves behind is not the next one's. */
export async function loaded({ settings, runs, batch, renewals }: { settings: string; runs: number; batch: number; renewals: number }): Promise<Loaded> {
  return onServer(
    (url) =>
      onConnection(url, async (client) => {
        // Makes the tables; what it ran is dropped.
        await doLoad({ url, runs: 100, batch: 100, renewals: 0, overlap: 'forbid' });
        for (const partition of await partitions(client)) {
          await client.query(`truncate ${partition}`);
          await client.query(`alter table ${partition} set (${settings})`);
        }
        await client.query('select pg_stat_reset()');
        const logBefore = await walPosition(client);
        const watch = new Watch(client);
        const took = await doLoad({ url, runs, batch, renewals, overlap: 'forbid' });
        const mostDead = await watch.end();
        // What a session did is counted when it has ended.
        for (let look = 0; look < 100 && (await counts(client)).updated < runs * (renewals + 1); look++) await sleep(100);
        const logBytes = (await walPosition(client)) - logBefore;
        const { in_place: inPlace, passes } = await counts(client);
        return { inPlace, passes, mostDead, logBytes, took, ...(await sizes(client)) };
      }),
    ['-c', 'autovacuum_naptime=1s', '-c', 'log_autovacuum_min_duration=-1'],
  );
}

async function partitions(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(`select relid::regclass::text as name from pg_partition_tree('job_runs') where isleaf`);
  return rows.map(({ name }) => name);
}

/** Looks each second how many versions are dead. */
class Watch {
  private most = 0;
  private over = false;
  private readonly watching: Promise<void>;

  constructor(private readonly client: pg.Client) {
    this.watching = this.watch();
  }

  async end(): Promise<number> {
    this.over = true;
    await this.watching;
    return this.most;
  }

  private async watch(): Promise<void> {
    do {
      await sleep(1_000);
      this.most = Math.max(this.most, (await counts(this.client)).dead);
    } while (!this.over);
  }
}

async function counts(client: pg.Client): Promise<{ dead: number; updated: number; in_place: number; passes: number }> {
  const { rows } = await client.query<{ dead: number; updated: number; in_place: number; passes: number }>(
    `select sum(n_dead_tup)::integer as dead, sum(n_tup_upd)::integer as updated, sum(n_tup_hot_upd)::integer as in_place, sum(autovacuum_count)::integer as passes
     from   pg_stat_user_tables
     where  relname like 'job\\_runs\\_%'`,
  );
  return rows[0]!;
}

async function sizes(client: pg.Client): Promise<Pick<Loaded, 'tableBytes' | 'indexBytes' | 'rowBytes'>> {
  const { rows } = await client.query<{ table: number; indexes: number; row: number }>(
    `select sum(pg_relation_size(relid))::float8 as table, sum(pg_indexes_size(relid))::float8 as indexes,
           (select avg(pg_column_size(seen))::float8 from (select * from job_runs limit 1000) seen) as row
     from   pg_partition_tree('job_runs')
     where  isleaf`,
  );
  return { tableBytes: rows[0]!.table, indexBytes: rows[0]!.indexes, rowBytes: rows[0]!.row };
}
