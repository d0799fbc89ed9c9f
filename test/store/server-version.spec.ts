import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { resolveSchedulerOptions } from '../../lib/options/resolve-options.js';
import { SchedulerDatabase } from '../../lib/database/scheduler-database.js';
import { SchemaStore } from '../../lib/database/schema.store.js';
import { schedulerMigrations, schedulerMigrationsIn } from '../../migrations/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

let test: TestDatabase;
beforeAll(async () => {
  test = await createTestDatabase();
});
afterAll(() => test.drop());

const TOO_OLD =
  /PostgreSQL 13\.23.*the scheduler needs PostgreSQL 14 or later \(14 to 18 are tested\).*Nothing was changed/s;

/** A database that is what it is, and says that it is PostgreSQL 13. */
async function database13(): Promise<SchedulerDatabase> {
  const options = resolveSchedulerOptions({ connection: test.url }, { env: {}, embeddedInstalled: false });
  const database = await SchedulerDatabase.open(options, { migrations: schedulerMigrationsIn(options.schema) });
  const { coordination } = database;
  const createQueryRunner = coordination.createQueryRunner.bind(coordination);
  coordination.createQueryRunner = (mode) => {
    const runner = createQueryRunner(mode);
    const connect = runner.connect.bind(runner) as () => Promise<Client>;
    runner.connect = async () => {
      const client = await connect();
      if (!aged.has(client)) age(client);
      return client;
    };
    return runner;
  };
  return database;
}

type Client = { query(asked: string | { text: string }, ...rest: unknown[]): unknown };
const aged = new WeakSet<Client>();

function age(client: Client): void {
  aged.add(client);
  const query = client.query.bind(client);
  const asOld = (sql: string) =>
    sql
      .replaceAll(`current_setting('server_version_num')`, `'130023'`)
      .replaceAll(`current_setting('server_version')`, `'13.23'`);
  client.query = (asked, ...rest) =>
    query(typeof asked === 'string' ? asOld(asked) : { ...asked, text: asOld(asked.text) }, ...rest);
}

describe('a server older than PostgreSQL 14', () => {
  it('is refused before any migration, with the version met and those that are supported', async () => {
    const database = await database13();
    await expect(new SchemaStore(database).migrate()).rejects.toThrow(TOO_OLD);
    await expect(new SchemaStore(database).verify()).rejects.toThrow(TOO_OLD);
    expect(await test.query(`select relname from pg_class where relnamespace = 'public'::regnamespace`)).toEqual([]);
    await database.close();
  });

  it('is refused by the first of the exported migrations, too', async () => {
    const { coordination, ...database } = await database13();
    const runner = coordination.createQueryRunner();
    const [first] = schedulerMigrations
      .map((migration) => new migration())
      .sort((one, other) => (one.name! < other.name! ? -1 : 1));
    await expect(first!.up(runner)).rejects.toThrow(TOO_OLD);
    await runner.release();
    await coordination.destroy();
    void database;
  });
});
