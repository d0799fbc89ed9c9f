import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { onConnection, onServer, walPosition } from './database.js';
import { doLoad, type LoadResult } from './load.js';

/** What became of the partition. */
export interface Loaded {
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
export async function loaded({
  settings,
  runs,
  batch,
  renewals,
}: {
  settings: string;
  runs: number;
  batch: number;
  renewals: number;
}): Promise<Loaded> {
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
        for (let look = 0; look < 100 && (await counts(client)).updated < runs * (renewals + 1); look++)
          await sleep(100);
        const logBytes = (await walPosition(client)) - logBefore;
        const { in_place: inPlace, passes } = await counts(client);
        return { inPlace, passes, mostDead, logBytes, took, ...(await sizes(client)) };
      }),
    ['-c', 'autovacuum_naptime=1s', '-c', 'log_autovacuum_min_duration=-1'],
  );
}

async function partitions(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select relid::regclass::text as name from pg_partition_tree('job_runs') where isleaf`,
  );
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
