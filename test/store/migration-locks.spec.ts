import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Client } from 'pg';
import { DataSource, type MigrationInterface, type QueryRunner } from 'typeorm';
import { schedulerMigrations } from '../../migrations/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

let test: TestDatabase;
let reader: Client;
beforeAll(async () => {
  test = await createTestDatabase();
  reader = new Client({ connectionString: test.url });
  await reader.connect();
});
afterAll(async () => {
  await reader.end();
  await test.drop();
});

/** As an application runs them: with its own data source, each in a transaction. */
async function migrate(migrations: typeof schedulerMigrations): Promise<void> {
  const source = await new DataSource({ type: 'postgres', url: test.url, migrations }).initialize();
  try {
    await source.runMigrations({ transaction: 'each' });
  } finally {
    await source.destroy();
  }
}

it('a migration of the application’s own data source gives up behind a long transaction, and runs when it is over', async () => {
  const changesRuns = schedulerMigrations.findIndex((one) => new one().name!.startsWith('CreateRunFunctions'));
  await migrate(schedulerMigrations.slice(0, changesRuns));
  await reader.query('begin; select from job_runs');
  await expect(migrate(schedulerMigrations)).rejects.toMatchObject({ code: '55P03' });
  await reader.query('commit');
  await migrate(schedulerMigrations);
});

it('the application’s own migrations in the same transaction have no bound of the library', async () => {
  const other = await createTestDatabase();
  const seen: unknown[] = [];
  class Own1896000000000 implements MigrationInterface {
    async up(queryRunner: QueryRunner): Promise<void> {
      seen.push(...((await queryRunner.query(`select current_setting('lock_timeout') as bound`)) as unknown[]));
    }
    async down(): Promise<void> {}
  }
  const migrations = [...schedulerMigrations, Own1896000000000];
  const source = await new DataSource({ type: 'postgres', url: other.url, migrations }).initialize();
  await source.runMigrations({ transaction: 'all' });
  await source.destroy();
  await other.drop();
  expect(seen).toEqual([{ bound: '0' }]);
});
