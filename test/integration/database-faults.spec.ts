import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import pg from 'pg';
import { DistributedCron, SchedulerEvents, type EventOf, type SchedulerEvent } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { RestartableServer } from '../support/restartable-server.js';
import { closeApps, nextEvent, nextRun, startApp } from './support/apps.js';

const databases: TestDatabase[] = [];
async function aDatabase(): Promise<TestDatabase> {
  const database = await createTestDatabase();
  databases.push(database);
  return database;
}
afterEach(closeApps);
afterAll(() => Promise.all(databases.map((one) => one.drop())));

@Injectable()
class Jobs {
  @DistributedCron('* * * * * *', { name: 'tick', lateAfter: '1h' })
  tick() {}
}
const OPTIONS = { pollInterval: '200ms' } as const;
const start = (url: string, options = {}) =>
  startApp({ url } as TestDatabase, { providers: [Jobs] }, { ...OPTIONS, ...options });
const named = (url: string, changes: Partial<Record<'password' | 'pathname' | 'username', string>>) =>
  Object.assign(new URL(url), changes).href;

/** Every loop that tells of a failure tells of its recovery, too. */
function stillFailing(events: readonly SchedulerEvent[]): string[] {
  const failing = new Set<string>();
  for (const event of events) {
    if (event.type === 'loop.failed' && !event.loop.includes(' of ')) failing.add(event.loop);
    if (event.type === 'loop.recovered') failing.delete(event.loop);
  }
  return [...failing];
}

async function eventually(fact: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await fact())) await new Promise((resolve) => setTimeout(resolve, 50));
}

describe('a start with a database that cannot be used says what to do', () => {
  it('a wrong password', async () => {
    const { url } = await aDatabase();
    const starting = start(named(url, { password: 'not-the-right-one' }), { waitForDatabase: '1h' });
    await expect(starting).rejects.toThrow(expect.objectContaining({ code: 'database-unreachable' }));
    await expect(starting).rejects.toThrow(
      /password authentication failed .*The server refused user and password: set those that it knows\./,
    );
  });

  it('a database that is not there', async () => {
    const { url } = await aDatabase();
    await expect(start(named(url, { pathname: '/nowhere' }), { waitForDatabase: '1h' })).rejects.toThrow(
      /"nowhere" does not exist\. There is no database of that name on the server: create it/,
    );
  });

  it('a server that is down', async () => {
    await expect(start('postgres://postgres@127.0.0.1:1/postgres')).rejects.toThrow(
      /ECONNREFUSED.*see that its server runs/,
    );
  });

  it('a read-only standby', async () => {
    const database = await aDatabase();
    await start(database.url);
    await closeApps();
    await database.query(
      `alter database ${new URL(database.url).pathname.slice(1)} set default_transaction_read_only = on`,
    );
    const starting = start(database.url);
    await expect(starting).rejects.toThrow(expect.objectContaining({ code: 'database-unusable' }));
    await expect(starting).rejects.toThrow(/read-only transaction\. This server takes no writes: it is a standby/);
  });

  it('a role without rights', async () => {
    const database = await aDatabase();
    await start(database.url);
    await closeApps();
    const role = `powerless_${Math.random().toString(36).slice(2)}`;
    await database.query(`create role ${role} login password 'p'`);
    await expect(start(named(database.url, { username: role, password: 'p' }), { migrate: false })).rejects.toThrow(
      /^Role "powerless_\w+" lacks rights that the scheduler needs: grant select, insert, update, delete on .*public\.job_schedule.* to "powerless_\w+"; .*npx nestjs-distributed-cron sql roles/,
    );
    await database.query(`drop role ${role}`);
  });
});

describe('B34 a database that comes and goes', () => {
  let server: RestartableServer;
  beforeAll(async () => {
    server = await RestartableServer.create();
  });
  afterAll(() => server.remove());

  it('is waited for at the start, and stopped and started again while the scheduler runs', async () => {
    const starting = start(server.url, { waitForDatabase: '5m' });
    await new Promise((resolve) => setTimeout(resolve, 500));
    await server.start();
    const app = await starting;
    const events: SchedulerEvent[] = [];
    app.get(SchedulerEvents).subscribe((event) => events.push(event));
    const { fireTime: before } = await nextRun(app, 'tick');

    await server.stop();
    const told = await nextEvent(app, 'database.unreachable');
    const failed = events.filter((event): event is EventOf<'loop.failed'> => event.type === 'loop.failed');
    expect(told.since).toEqual(failed[0]!.at);
    expect(failed.every(({ trouble }) => trouble?.passing)).toBe(true);

    await server.start();
    expect((await nextEvent(app, 'database.reachable')).since).toEqual(told.since);
    await nextEvent(app, 'run.completed', ({ fireTime }) => fireTime > before);
    await eventually(() => stillFailing(events).length === 0);
    expect(events.filter(({ type }) => type === 'database.unreachable')).toHaveLength(1);
  });

  it('is waited for as long as the option says, no longer', async () => {
    await server.stop();
    const refused = start(server.url, { waitForDatabase: '1s' });
    await expect(refused).rejects.toThrow(/ECONNREFUSED/);
    await expect(refused).rejects.toThrow(
      /host and port are right\. waitForDatabase says how long a start waits for that/,
    );
    await expect(refused).rejects.not.toThrow(/by itself/);
  });

  it('is waited for while it has no connection left', async () => {
    await server.start(
      'max_connections=5',
      'superuser_reserved_connections=0',
      'reserved_connections=0',
      'max_wal_senders=0',
    );
    const others = Array.from({ length: 5 }, () => new pg.Client({ connectionString: server.url }));
    for (const other of others) other.on('error', () => {});
    await Promise.all(others.map((other) => other.connect()));
    await expect(start(server.url)).rejects.toThrow(/The server has no connection left: raise max_connections/);
    const starting = start(server.url, { waitForDatabase: '5m', poolSize: 2, receiptPoolSize: 1 });
    await new Promise((resolve) => setTimeout(resolve, 500));
    await Promise.all(others.map((other) => other.end()));
    await nextRun(await starting, 'tick');
  });
});

describe('a fault while the scheduler runs ends no loop', () => {
  it('a table that is dropped, and made again', async () => {
    const database = await aDatabase();
    const app = await start(database.url);
    await nextRun(app, 'tick');
    const events: SchedulerEvent[] = [];
    app.get(SchedulerEvents).subscribe((event) => events.push(event));
    await database.query('alter table job_runs rename to lost');
    const failed = await nextEvent(app, 'loop.failed', ({ loop }) => loop === 'ticker');
    expect(failed.trouble).toMatchObject({ kind: 'missing table', passing: false, code: '42P01' });
    await nextEvent(app, 'loop.failed', ({ loop }) => loop === 'reaper');
    await database.query('alter table lost rename to job_runs');
    await nextRun(app, 'tick');
    await eventually(() => stillFailing(events).length === 0);
  });

  it('a failover to a server that takes no writes yet', async () => {
    const database = await aDatabase();
    const app = await start(database.url);
    await nextRun(app, 'tick');
    const events: SchedulerEvent[] = [];
    app.get(SchedulerEvents).subscribe((event) => events.push(event));
    const name = new URL(database.url).pathname.slice(1);
    const reconnect = () =>
      database.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}' and application_name like 'nestjs%'`,
      );
    await database.query(`alter database ${name} set default_transaction_read_only = on`);
    await reconnect();
    const failed = await nextEvent(app, 'loop.failed', ({ trouble }) => trouble?.kind === 'read-only');
    expect(failed.trouble).toMatchObject({ passing: true, code: '25006' });
    await database.query(`begin read write; alter database ${name} reset default_transaction_read_only; commit`);
    await reconnect();
    await nextRun(app, 'tick');
    await eventually(() => stillFailing(events).length === 0);
  });
});
