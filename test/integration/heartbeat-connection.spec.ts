import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { CronRun, DistributedCron, type DistributedSchedulerOptions } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextRun, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

@Injectable()
class LongerThanItsLease {
  @DistributedCron('* * * * * *', { name: 'long', lease: '1s', renewEvery: '200ms' })
  async run({ signal }: CronRun) {
    await sleep(1_500);
    signal.throwIfAborted();
  }
}

const start = (connection: DistributedSchedulerOptions['connection']) =>
  startApp(database, { providers: [LongerThanItsLease] }, { connection });

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

describe('the heartbeat connects with what the pools connect with', () => {
  it('also when the master’s password is made by a function', async () => {
    const { password, ...master } = parts();
    const app = await start({ replication: { master: { ...master, password: async () => password }, slaves: [] } });
    expect(await nextRun(app, 'long')).toMatchObject({ attempt: 1 });
  });

  it('or the start fails, and names the functions that it had to leave out', async () => {
    const { host, port, ...login } = parts();
    const tunnel = () => {
      const socket = new Socket();
      const connect = socket.connect.bind(socket) as (port: number, host: string) => Socket;
      socket.connect = () => connect(port, host);
      return socket;
    };
    const starting = start({ ...login, host: '127.0.0.1', port: 1, extra: { stream: tunnel } });
    await expect(starting).rejects.toThrow(expect.objectContaining({ code: 'database-unreachable' }));
    await expect(starting).rejects.toThrow(
      /heartbeat’s own connection\): .*ECONNREFUSED.* options that are functions can’t be used; left out: extra\.stream/,
    );
    const left = await database.query(
      `select from pg_stat_activity where datname = current_database() and application_name like 'nestjs%'`,
    );
    expect(left).toEqual([]);
  });
});

describe('an application that reads instants as text in its whole process', () => {
  const TIMESTAMPTZ = 1184;
  const before = pg.types.getTypeParser(TIMESTAMPTZ, 'text');
  afterEach(() => pg.types.setTypeParser(TIMESTAMPTZ, before));

  it('has its runs claimed, renewed and completed', async () => {
    pg.types.setTypeParser(TIMESTAMPTZ, (text: string) => text);
    const app = await start(database.url);
    const { fireTime } = await nextRun(app, 'long');
    expect(fireTime).toBeInstanceOf(Date);
  });
});
