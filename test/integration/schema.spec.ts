import { Injectable } from '@nestjs/common';
import { DataSource, type MigrationInterface, type QueryRunner } from 'typeorm';
import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { schedulerMigrations, schedulerMigrationsIn } from '../../migrations/index.js';
import { CronRun, DistributedCron, ReceiptService } from '../../lib/index.js';
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
class Invoices {
  constructor(private readonly receipts: ReceiptService) {}

  @DistributedCron('* * * * * *', { name: 'invoices' })
  async run({ fireTime }: CronRun) {
    await this.receipts.once(fireTime.getTime(), () => 'sent');
  }
}

const tables = (schema: string) =>
  database.query(
    `select tablename as name from pg_tables where schemaname = $1 and tablename in ('job_schedule', 'job_runs', 'receipts', 'job_backfills') order by 1`,
    [schema],
  );
const ALL = ['job_backfills', 'job_runs', 'job_schedule', 'receipts'].map((name) => ({ name }));

describe('a schema', () => {
  it.each(['billing', 'my-Schema', 'of order 2', 'select'])(
    'of the name %s holds everything, from migration to receipt',
    async (schema) => {
      const app = await startApp(database, { providers: [Invoices] }, { schema });
      await nextRun(app, 'invoices');
      expect(await tables(schema)).toEqual(ALL);
      expect(await tables('public')).toEqual([]);
      expect(await database.query(`select distinct result from "${schema}".receipts`)).toEqual([{ result: 'sent' }]);
    },
  );

  it('is refused with a dot, which TypeORM takes for a database and a schema', async () => {
    await expect(startApp(database, {}, { schema: 'billing.cron' })).rejects.toThrow(
      /schema: expected the name of a schema .*no quotes, dots, .*got "billing\.cron"/,
    );
  });

  it('keeps two schedulers in one database apart', async () => {
    const [one, other] = await Promise.all(
      ['one', 'other'].map((schema) => startApp(database, { providers: [Invoices] }, { schema })),
    );
    const runs = await Promise.all([nextRun(one!, 'invoices'), nextRun(other!, 'invoices')]);
    for (const [index, schema] of ['one', 'other'].entries()) {
      const [row] = await database.query(`select status from ${schema}.job_runs where fire_time = $1`, [
        runs[index]!.fireTime,
      ]);
      expect(row).toEqual({ status: 'done' });
    }
  });
});

class CreateCustomers1700000000000 implements MigrationInterface {
  async up(queryRunner: QueryRunner) {
    await queryRunner.query('create table customers (id text)');
  }

  async down(queryRunner: QueryRunner) {
    await queryRunner.query('drop table customers');
  }
}

describe('the exported migrations in a data source of the application', () => {
  async function migrate(options: {
    schema?: string;
    migrations: (new () => MigrationInterface)[];
  }): Promise<DataSource> {
    const source = await new DataSource({ type: 'postgres', url: database.url, ...options }).initialize();
    await source.runMigrations();
    return source;
  }

  it('run beside its own, serve the scheduler, and are undone', async () => {
    const source = await migrate({ migrations: [CreateCustomers1700000000000, ...schedulerMigrations] });
    expect(await tables('public')).toEqual(ALL);
    const app = await startApp(database, { providers: [Invoices] }, { migrate: false });
    await nextRun(app, 'invoices');
    await closeApps();
    for (const _ of schedulerMigrations) await source.undoLastMigration();
    expect(await tables('public')).toEqual([]);
    expect(await database.query(`select proname from pg_proc where pronamespace = 'public'::regnamespace`)).toEqual([]);
    expect(await database.query(`select to_regclass('customers') is not null as there`)).toEqual([{ there: true }]);
    await source.destroy();
  });

  it('are a no-op for a scheduler that migrates, and the other way round', async () => {
    const source = await migrate({ migrations: schedulerMigrations });
    await nextRun(await startApp(database, { providers: [Invoices] }), 'invoices');
    await closeApps();
    const other = await createTestDatabase();
    databases.push(other);
    await nextRun(await startApp(other, { providers: [Invoices] }), 'invoices');
    // Beside runs a migration may have to be run again: it wants locks that they hold, too.
    await closeApps();
    const afterwards = await new DataSource({
      type: 'postgres',
      url: other.url,
      migrations: schedulerMigrations,
    }).initialize();
    expect(await afterwards.runMigrations()).toHaveLength(schedulerMigrations.length);
    await Promise.all([source.destroy(), afterwards.destroy()]);
  });

  it.each([
    ['the schema of the data source', { schema: 'ops', migrations: schedulerMigrations }],
    ['the schema they are asked for', { migrations: schedulerMigrationsIn('ops') }],
  ])('make their tables in %s', async (_what, options) => {
    await database.query('create schema ops');
    const source = await migrate(options);
    expect(await tables('ops')).toEqual(ALL);
    await source.destroy();
  });
});
