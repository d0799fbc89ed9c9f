import { Injectable } from '@nestjs/common';
import { DataSource, EntitySchema, type MigrationInterface } from 'typeorm';
import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { schedulerMigrations, schedulerMigrationsIn } from '../../migrations/index.js';
import { DistributedCron } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextRun, startApp } from './support/apps.js';

const databases: TestDatabase[] = [];
let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
  databases.push(database);
});
afterEach(closeApps);
afterAll(() => Promise.all(databases.map((one) => one.drop())));

@Injectable()
class Jobs {
  @DistributedCron('* * * * * *', { name: 'tick' })
  tick() {}
}

const OURS = [
  'job_schedule',
  'job_runs',
  'receipts',
  'receipt_secret',
  'job_backfills',
  'job_instances',
  'job_actions',
  'job_flags',
  'job_alerts',
  'job_pages',
];

/** Everything that is in the schema, and what is in the application's own table. */
async function contents() {
  const relations = await database.query(
    `select relname, relkind, (select array_agg(attname::text order by attnum) from pg_attribute where attrelid = pg_class.oid and attnum > 0) as columns
     from   pg_class
     where  relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v')
     order  by 1`,
  );
  const functions = await database.query(
    `select proname from pg_proc where pronamespace = 'public'::regnamespace order by 1`,
  );
  return { relations, functions };
}

async function appMigrations(
  migrations: (new () => MigrationInterface)[],
  options: { migrationsTransactionMode?: 'all' | 'each' | 'none'; schema?: string } = {},
) {
  const source = await new DataSource({ type: 'postgres', url: database.url, migrations, ...options }).initialize();
  try {
    await source.runMigrations();
  } finally {
    await source.destroy();
  }
}

const refusal = (name: string, what = 'a table') =>
  new RegExp(
    `"public"\\."${name}" is ${what} that is not this library's .*Nothing was changed.*schema: 'scheduler'`,
    's',
  );

describe("somebody else's table is never taken for the library's", () => {
  it.each(OURS)('%s: the start is refused before anything is changed, with migrate and without it', async (name) => {
    await database.query(`create table ${name} (id text, customer text, amount numeric)`);
    await database.query(`insert into ${name} values ('1', 'ada', 12)`);
    const before = await contents();
    await expect(startApp(database, { providers: [Jobs] })).rejects.toThrow(refusal(name));
    await expect(startApp(database, { providers: [Jobs] }, { migrate: false })).rejects.toThrow(refusal(name));
    expect(await contents()).toEqual(before);
    expect(await database.query(`select * from ${name}`)).toEqual([{ id: '1', customer: 'ada', amount: '12' }]);
  });

  it.each(OURS)('%s: nor a view, whatever its columns are', async (name) => {
    await startApp(database, { providers: [Jobs] });
    await closeApps();
    await database.query(`alter table ${name} rename to theirs`);
    await database.query(`create view ${name} as select * from theirs`);
    await expect(startApp(database, { providers: [Jobs] })).rejects.toThrow(refusal(name, 'a view'));
    await expect(startApp(database, { providers: [Jobs] }, { migrate: false })).rejects.toThrow(
      refusal(name, 'a view'),
    );
  });

  it.each(['all', 'each', 'none'] as const)(
    'migrations that the application runs (transactions: %s) are refused before anything is changed',
    async (migrationsTransactionMode) => {
      await database.query('create table receipts (id text, customer text, amount numeric)');
      await database.query('create view job_alerts as select 1 as one');
      const run = appMigrations(schedulerMigrations, { migrationsTransactionMode });
      await expect(run).rejects.toThrow(refusal('receipts'));
      await expect(run).rejects.toThrow(refusal('job_alerts', 'a view'));
      const { relations, functions } = await contents();
      expect(relations.map(({ relname }) => relname)).toEqual(expect.not.arrayContaining(['job_runs', 'job_schedule']));
      expect(functions).toEqual([]);
      await database.query('create schema scheduler');
      await appMigrations(schedulerMigrationsIn('scheduler'), { migrationsTransactionMode });
      const app = await startApp(database, { providers: [Jobs] }, { migrate: false, schema: 'scheduler' });
      await nextRun(app, 'tick');
    },
  );

  it.each(['receipts', 'job_flags', 'job_runs', 'job_schedule'])(
    'an entity of the name %s with synchronize: refused, whoever came first',
    async (name) => {
      const Theirs = new EntitySchema<{ id: string; customer: string }>({
        name: 'Theirs',
        tableName: name,
        columns: { id: { type: 'text', primary: true }, customer: { type: 'text' } },
      });
      const synchronize = () =>
        new DataSource({ type: 'postgres', url: database.url, entities: [Theirs], synchronize: true }).initialize();
      await (await synchronize()).destroy();
      await expect(startApp(database, { providers: [Jobs] })).rejects.toThrow(refusal(name));
      await database.query(`drop table ${name}`);
      await startApp(database, { providers: [Jobs] });
      await closeApps();
      // TypeORM makes the library's table into its own, if it can.
      const made = await synchronize().then(
        (source) => source.destroy().then(() => true),
        () => false,
      );
      if (made) await expect(startApp(database, { providers: [Jobs] })).rejects.toThrow(refusal(name));
      else await nextRun(await startApp(database, { providers: [Jobs] }), 'tick');
    },
  );

  it('a lost table of the library is named as that, and not as somebody else’s', async () => {
    await startApp(database, { providers: [Jobs] });
    await closeApps();
    await database.query('drop table job_flags, job_pages');
    await expect(startApp(database, { providers: [Jobs] }, { migrate: false })).rejects.toThrow(
      /lacks job_flags, job_pages\. Set migrate: true/,
    );
  });
});
