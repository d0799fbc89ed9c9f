import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { resolveSchedulerOptions } from '../../lib/options/resolve-options.js';
import type { OwnedRun } from '../../lib/options/run.js';
import { PageStore } from '../../lib/fan-out/page.repository.js';
import { SchedulerDatabase } from '../../lib/database/scheduler-database.js';
import { SchemaStore } from '../../lib/database/schema.store.js';
import { schedulerMigrations } from '../../migrations/index.js';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;

beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());

const partitionsOf = async (table: string) =>
  (
    await stores.test.query<{ name: string }>(
      `select child.relname as name from pg_inherits join pg_class child on child.oid = inhrelid where inhparent = $1::regclass order by 1`,
      [table],
    )
  ).map(({ name }) => name);

const claim = (jobName: string, fireTime: Date) =>
  stores.claims.claimDue([aDue(jobName, fireTime, { overlap: 'allow', leaseMs: 60_000 })], 'A');

describe('trap 16: partitions', () => {
  it('are made for all tables, once, by many replicas at the same time', async () => {
    const instants = [new Date('2031-01-31T23:59:59Z'), new Date('2031-02-01T00:00:00Z')];
    const made = await Promise.all(Array.from({ length: 8 }, () => stores.partitions.ensure(instants)));
    const names = [
      'job_pages_2031_01',
      'job_pages_2031_02',
      'job_runs_2031_01',
      'job_runs_2031_02',
      'receipts_2031_01',
      'receipts_2031_02',
    ];
    expect(made.flat().sort()).toEqual(names);
    expect(await partitionsOf('job_runs')).toEqual(expect.arrayContaining(names.slice(2, 4)));
    expect(await partitionsOf('job_pages')).toEqual(expect.arrayContaining(names.slice(0, 2)));
    expect(await partitionsOf('receipts')).toEqual(expect.arrayContaining(names.slice(4)));
  });

  it('leave room in the pages of runs, whose leases are renewed in place, and none in those of receipts', async () => {
    const rows = await stores.test.query<{ table: string; options: string[] | null }>(
      `select parent.relname as table, child.reloptions as options
       from   pg_inherits
       join   pg_class child on child.oid = inhrelid
       join   pg_class parent on parent.oid = inhparent
       where  child.relkind = 'r'`,
    );
    const optionsOf = (table: string) => [
      ...new Set(rows.filter((row) => row.table === table).map(({ options }) => options?.join())),
    ];
    expect(optionsOf('job_runs')).toEqual(['fillfactor=80']);
    expect(optionsOf('receipts')).toEqual(['fillfactor=100']);
  });

  it('a missing one is made on demand: the run is not lost', async () => {
    const fireTime = new Date('2019-03-31T23:59:59Z');
    const { answers } = await claim('late', fireTime);
    expect(answers).toMatchObject([{ verdict: 'claimed', fireTime }]);
    expect(await partitionsOf('job_runs')).toContain('job_runs_2019_03');
    expect(await partitionsOf('receipts')).toContain('receipts_2019_03');
  });

  it('a missing one for pages alone is made on demand, too', async () => {
    const fireTime = new Date('2019-06-30T23:59:59Z');
    await claim('paged', fireTime);
    await stores.test.query('drop table job_pages_2019_06');
    const run = { jobName: 'paged', fireTime, attempt: 1, instanceId: 'A' } as OwnedRun;
    expect(await new PageStore(stores.database, stores.partitions).add(run, [{ page: '1', data: null }])).toBe(1);
  });

  it('hold each month from its first second to its last, in UTC', async () => {
    for (const [instant, month] of [
      ['2020-02-29T23:59:59Z', '2020_02'],
      ['2020-03-01T00:00:00Z', '2020_03'],
    ] as const) {
      await claim('edge', new Date(instant));
      const [row] = await stores.test.query<{ partition: string }>(
        `select tableoid::regclass::text as partition from job_runs where job_name = 'edge' and fire_time = $1`,
        [instant],
      );
      expect(row!.partition).toBe(`job_runs_${month}`);
    }
  });

  it('are attached without waiting for a claim that is under way', async () => {
    const dataSource = stores.database.coordination;
    await dataSource.transaction(async (manager) => {
      await manager.query(
        `insert into job_runs (job_name, fire_time, status, trigger, reason) values ('open', $1, 'skipped', 'schedule', 'test')`,
        [secondsAgo(1)],
      );
      expect(await stores.partitions.ensure([new Date('2032-01-01T00:00:00Z')])).toHaveLength(3);
    });
  });

  it('that somebody has detached and left there are told of, with what to do; the others are made all the same', async () => {
    const [instant, other] = [new Date('2033-01-15T00:00:00Z'), new Date('2033-02-15T00:00:00Z')];
    await stores.partitions.ensure([instant]);
    await stores.test.query('alter table receipts detach partition receipts_2033_01');
    expect(await stores.partitions.areThere(instant)).toBe(false);
    await expect(stores.partitions.ensure([instant, other])).rejects.toThrow(
      'Table "public"."receipts_2033_01" is there and is no partition of "public"."receipts", so that what is due from 2033-01-01T00:00:00.000Z to 2033-02-01T00:00:00.000Z has no place. ' +
        'Give it another name (alter table "public"."receipts_2033_01" rename to …), and the scheduler makes a new one; or attach it again: ' +
        `alter table "public"."receipts" attach partition "public"."receipts_2033_01" for values from ('2033-01-01T00:00:00.000Z') to ('2033-02-01T00:00:00.000Z').`,
    );
    expect(await partitionsOf('receipts')).toContain('receipts_2033_02');
    await stores.test.query('alter table receipts_2033_01 rename to receipts_archive');
    expect(await stores.partitions.ensure([instant])).toEqual(['receipts_2033_01']);
  });

  it('of a month that is over may be detached by hand, until something is due in it', async () => {
    const [over, toCome] = [new Date('2018-03-15T00:00:00Z'), new Date('2034-01-01T00:00:00Z')];
    await stores.partitions.ensure([over]);
    await stores.test.query('alter table job_runs detach partition job_runs_2018_03');
    expect(await stores.partitions.ensure([toCome], [over])).toHaveLength(3);
    await expect(claim('late', over)).rejects.toThrow(/"job_runs_2018_03" is there and is no partition/);
  });

  it('refuse a fire time that is not a whole second', async () => {
    await expect(claim('fraction', new Date(secondsAgo(1).getTime() + 500))).rejects.toThrow(
      /job_runs_fire_time_in_whole_seconds/,
    );
  });
});

describe('the schema', () => {
  it('refuses a server that writes dates the driver does not read, where that can’t be overruled, as behind a pooler', async () => {
    const [{ name }] = (await stores.test.query<{ name: string }>('select current_database() as name')) as [
      { name: string },
    ];
    await stores.test.query(`alter database ${name} set datestyle = 'German'`);
    const other = await SchedulerDatabase.open(
      resolveSchedulerOptions({ connection: stores.test.url, poolSize: 1 }, { env: {}, embeddedInstalled: false }),
    );
    // On a session of its own it is overruled.
    await new SchemaStore(other).verify();
    await other.coordination.query('reset datestyle');
    await expect(new SchemaStore(other).verify()).rejects.toThrow(/DateStyle is "German, DMY"/);
    await other.close();
    await stores.test.query(`alter database ${name} reset datestyle`);
  });

  it('is created once by many replicas at the same time, and again without a change', async () => {
    await Promise.all(Array.from({ length: 8 }, () => stores.schema.migrate()));
    await stores.schema.verify();
    const [row] = await stores.test.query<{ count: string }>('select count(*) from distributed_cron_migrations');
    expect(Number(row!.count)).toBe(schedulerMigrations.length);
  });
});
