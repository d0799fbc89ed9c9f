import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { HeartbeatThread, type ThreadListener } from '../../lib/runs/heartbeat/heartbeat-thread.js';
import type { FromThread, ToThread } from '../../lib/runs/heartbeat/heartbeat.messages.js';
import { Pulse } from '../../lib/runs/heartbeat/main-loop-watch.js';
import { monotonicNow } from '../../lib/database/clock.js';
import { connectionSettings } from '../../lib/database/query.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const WATCH = { pulse: new Pulse().memory, blockedAfterMs: 5_000, instanceId: 'me', logging: false };

/** No message of ours: the thread dies of it. */
const POISON = null as unknown as ToThread;

/** A thread whose password is made by the function, and what its owner heard. */
function threadWith(password: () => Promise<string>) {
  const heard: FromThread[] = [];
  let failures = 0;
  let waiting: { failures: number; resolve: () => void }[] = [];
  const listener: ThreadListener = {
    hear: (message) => heard.push(message),
    failed: () => {
      failures += 1;
      waiting = waiting.filter((one) => one.failures > failures || one.resolve());
    },
    ended: () => undefined,
    replaced: () => {},
  };
  const settings = () => ({ ...connectionSettings(address(), 'the thread under test'), password });
  const failed = (count: number) =>
    failures >= count ? Promise.resolve() : new Promise<void>((resolve) => waiting.push({ failures: count, resolve }));
  return { thread: new HeartbeatThread(settings, { schema: 'public', watch: WATCH }, listener), heard, failed };
}

/** Without a password: one in an url would come before the function's. */
function address() {
  const { hostname: host, port, username, pathname } = new URL(database.url);
  return { host, port: Number(port), username, database: pathname.slice(1) };
}

const rightPassword = async () => decodeURIComponent(new URL(database.url).password);

describe('the heartbeat’s thread', () => {
  it('stops in the moment after it died, before it is started again', async () => {
    const { thread, failed } = threadWith(rightPassword);
    await thread.start();
    thread.post(POISON);
    await failed(1);
    await sleep(50);
    await thread.stop();
  });

  it('stops while it can’t be started again, because there is no password', async () => {
    let asked = 0;
    const { thread, failed } = threadWith(async () => {
      if (++asked > 1) throw new Error('the vault is sealed');
      return rightPassword();
    });
    await thread.start();
    thread.post(POISON);
    await failed(2);
    await thread.stop();
  });

  it('does not begin when it was stopped while its password was made', async () => {
    let give = (_password: string) => {};
    const { thread, heard } = threadWith(() => new Promise<string>((resolve) => (give = resolve)));
    const starting = thread.start();
    await thread.stop();
    give(await rightPassword());
    await starting;
    // A thread would have something to say about a lease: that there is no such table.
    const lease = {
      id: 'one',
      jobName: 'job',
      fireTime: new Date().toISOString(),
      attempt: 1,
      instanceId: 'me',
      leaseMs: 900,
    };
    thread.post({
      type: 'watch',
      runs: [{ ...lease, renewEveryMs: 1, leaseDeadline: monotonicNow() + 900, renewUntil: Infinity }],
    });
    await sleep(500);
    expect(heard).toEqual([]);
  });

  it('says at its start that its settings don’t work, and is gone', async () => {
    const { thread } = threadWith(async () => 'not-the-right-one');
    const started = await thread.start().catch((error: unknown) => error);
    await thread.stop();
    expect(String(started)).toMatch(/password authentication failed/);
    expect(
      await database.query(`select from pg_stat_activity where application_name = 'the thread under test'`),
    ).toEqual([]);
  });
});
