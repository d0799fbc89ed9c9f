import { Injectable, Module } from '@nestjs/common';
import { Column, DataSource, Entity, PrimaryColumn } from 'typeorm';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  CronRun,
  DistributedCron,
  DistributedSchedulerModule,
  InvalidOptionsError,
  ReceiptService,
  type DistributedSchedulerAsyncOptions,
  type DistributedSchedulerOptions,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, jobNames, nextRun, startModules } from './support/apps.js';
import { withEnvironment } from './support/environment.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

@Injectable()
class Seldom {
  @DistributedCron('0 0 29 2 *', { name: 'seldom' })
  run() {}
}

const forRoot = (options?: DistributedSchedulerOptions) =>
  startModules({
    imports: [
      DistributedSchedulerModule.forRoot(options && { migrate: true, logging: false, enabled: false, ...options }),
    ],
    providers: [Seldom],
  });
const forRootAsync = (options: DistributedSchedulerAsyncOptions) =>
  startModules({ imports: [DistributedSchedulerModule.forRootAsync(options)], providers: [Seldom] });

/** The parts of the test database's url, as TypeORM and libpq name them. */
function parts() {
  const { hostname, port, username, password, pathname } = new URL(database.url);
  return {
    host: hostname,
    port: Number(port),
    username,
    password: decodeURIComponent(password),
    database: pathname.slice(1),
  };
}

describe('forRootAsync', () => {
  const options = () => ({ connection: database.url, migrate: true, logging: false, enabled: false });

  @Injectable()
  class OptionsFactory {
    createDistributedSchedulerOptions() {
      return options();
    }
  }
  @Module({
    providers: [OptionsFactory, { provide: 'url', useFactory: () => database.url }],
    exports: [OptionsFactory, 'url'],
  })
  class ConfigModule {}

  it.each<[string, DistributedSchedulerAsyncOptions]>([
    [
      'useFactory with inject',
      {
        imports: [ConfigModule],
        inject: ['url'],
        useFactory: async (connection: string) => ({ ...options(), connection }),
      },
    ],
    ['useClass', { useClass: OptionsFactory }],
    ['useExisting', { imports: [ConfigModule], useExisting: OptionsFactory }],
  ])('takes the options from %s', async (_way, given) => {
    expect(jobNames(await forRootAsync(given))).toEqual(['seldom']);
  });

  it.each<[string, DistributedSchedulerAsyncOptions, string]>([
    ['none', {}, 'none'],
    ['two', { useClass: OptionsFactory, useFactory: options }, 'useFactory and useClass'],
  ])('refuses %s of the ways', (_what, given, named) => {
    expect(() => DistributedSchedulerModule.forRootAsync(given)).toThrow(
      `expected one of useFactory, useClass and useExisting, got ${named}.`,
    );
  });

  it('checks what the factory returns', async () => {
    await expect(forRootAsync({ useFactory: () => ({ connectoin: database.url }) as object })).rejects.toThrow(
      InvalidOptionsError,
    );
  });
});

describe('the database is named by', () => {
  it.each<[string, () => Promise<unknown>]>([
    ['connection, a url', () => forRoot({ connection: database.url })],
    ['connection, TypeORM options', () => forRoot({ connection: { type: 'postgres', ...parts() } })],
    ['DATABASE_URL', () => withEnvironment({ DATABASE_URL: database.url }, () => forRoot({}))],
    [
      'PGHOST and its like',
      () => {
        const { host, port, username, password, database: name } = parts();
        return withEnvironment(
          { PGHOST: host, PGPORT: String(port), PGUSER: username, PGPASSWORD: password, PGDATABASE: name },
          () => forRoot({}),
        );
      },
    ],
    ['dataSource', async () => forRoot({ dataSource: await applicationSource() })],
  ])('%s', async (_what, start) => {
    await database.query('drop table if exists job_schedule, job_runs, receipts, distributed_cron_migrations');
    await start();
    expect(await database.query('select name from job_schedule')).toEqual([{ name: 'seldom' }]);
  });

  it('nothing in production: an error that says what to set', async () => {
    await withEnvironment({ NODE_ENV: 'production' }, () =>
      expect(forRoot({})).rejects.toThrow(
        /set DATABASE_URL, or PGHOST and PGDATABASE, or give connection or dataSource/,
      ),
    );
  });
});

@Entity({ name: 'invoice' })
class Invoice {
  @PrimaryColumn('text')
  id!: string;

  @Column('text')
  sentBy!: string;
}

const sources: DataSource[] = [];
afterEach(async () => {
  await Promise.all(sources.splice(0).map((source) => source.destroy()));
});
async function applicationSource(): Promise<DataSource> {
  const source = new DataSource({
    type: 'postgres',
    url: database.url,
    entities: [Invoice],
    synchronize: true,
    poolSize: 2,
  });
  sources.push(source);
  return source.initialize();
}

describe('an existing data source', () => {
  @Injectable()
  class Invoices {
    constructor(private readonly receipts: ReceiptService) {}

    @DistributedCron('* * * * * *', { name: 'invoices' })
    async run({ jobName }: CronRun) {
      await this.receipts.once('4711', (manager) => manager.save(Invoice, { id: '4711', sentBy: jobName }));
    }
  }

  it('lends its entities to the manager of a receipt, and stays open when the application closes', async () => {
    const dataSource = await applicationSource();
    @Module({ providers: [{ provide: DataSource, useValue: dataSource }], exports: [DataSource] })
    class PersistenceModule {}
    const scheduler = DistributedSchedulerModule.forRootAsync({
      imports: [PersistenceModule],
      inject: [DataSource],
      useFactory: (given: DataSource) => ({ dataSource: given, migrate: true, logging: false }),
    });
    const app = await startModules({ imports: [scheduler], providers: [Invoices] });
    await nextRun(app, 'invoices');
    await closeApps();
    expect(await dataSource.getRepository(Invoice).find()).toEqual([{ id: '4711', sentBy: 'invoices' }]);
  });
});

describe('a database that can’t be used', () => {
  it('is a data source that nobody has initialized', async () => {
    const dataSource = new DataSource({ type: 'postgres', url: database.url });
    await expect(forRoot({ dataSource })).rejects.toThrow(
      /address from forRoot\(\{ dataSource \}\)\): the data source is not initialized/,
    );
  });

  it('is named, never with a password: wrong password', async () => {
    const url = new URL(database.url);
    url.password = 'not-the-right-one';
    const error = await forRoot({ connection: url.href }).catch((thrown: unknown) => thrown as Error);
    expect(error).toMatchObject({ code: 'database-unreachable' });
    expect((error as Error).message).toMatch(
      /address from forRoot\(\{ connection \}\)\): .*password authentication failed/,
    );
    expect((error as Error).message).not.toContain('not-the-right-one');
  });

  it('is named: nobody listens', async () => {
    const starting = withEnvironment({ DATABASE_URL: 'postgres://app:secret-word@127.0.0.1:1/app' }, () => forRoot({}));
    await expect(starting).rejects.toThrow(/address from DATABASE_URL\): .*ECONNREFUSED/);
    await expect(starting).rejects.not.toThrow(/secret-word/);
  });

  it('lacks its tables and may not make them', async () => {
    const empty = await createTestDatabase();
    const starting = forRoot({ connection: empty.url, migrate: false });
    await expect(starting).rejects.toThrow(expect.objectContaining({ code: 'missing-tables' }));
    await expect(starting).rejects.toThrow(
      'Schema "public" has none of the scheduler’s tables yet. Set migrate: true in forRoot()',
    );
    expect(
      await database.query('select from pg_stat_activity where datname = $1 and application_name like $2', [
        new URL(empty.url).pathname.slice(1),
        'nestjs%',
      ]),
    ).toEqual([]);
    await empty.drop();
  });
});
