import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { EVERY_WAKE_UP, readWakeUp } from '../../lib/runs/heartbeat/heartbeat.messages.js';
import type { FromThread } from '../../lib/runs/heartbeat/heartbeat.messages.js';
import { HeartbeatThread } from '../../lib/runs/heartbeat/heartbeat-thread.js';
import { LeaseKeeper } from '../../lib/runs/heartbeat/lease-keeper.js';
import { Pulse } from '../../lib/runs/heartbeat/main-loop-watch.js';
import { NotificationListener } from '../../lib/runs/heartbeat/notification-listener.js';
import { connectionSettings } from '../../lib/database/query.js';
import { Tables } from '../../lib/database/tables.js';
import { wakeUpChannel } from '../../lib/database/tables.js';
import { eventually } from '../cluster/harness/eventually.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { Wire } from '../support/wire.js';

const TABLES = new Tables('public');
/** Ends a test that hangs, and measures nothing. */
const PATIENCE_MS = 15_000;

let database: TestDatabase;
let wire: Wire;
let ends: (() => unknown)[];
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());
beforeEach(async () => {
  ends = [];
  wire = await Wire.to(database.url);
});
afterEach(async () => {
  wire.end();
  for (const end of ends) await end();
});

const notify = (payload: string) => database.query(`select pg_notify('${TABLES.wakeUps}', $1)`, [payload]);

/** An instance's listening connection, and what its thread was told; without a lease to keep. */
async function listener(instanceId: string, url = wire.url) {
  const told: FromThread[] = [];
  const ear = new NotificationListener(TABLES.wakeUps, instanceId, (wakeUps) => told.push({ type: 'woken', wakeUps }));
  const { hostname, port, username, password, pathname } = new URL(url);
  const client = {
    host: hostname,
    port: Number(port),
    user: username,
    password: decodeURIComponent(password),
    database: pathname.slice(1),
  };
  const keeper = new LeaseKeeper(
    { ...client, connectionTimeoutMillis: 5_000, application_name: instanceId },
    TABLES,
    (message) => told.push(message),
    ear,
  );
  ends.push(async () => (ear.stop(), keeper.stop()));
  await keeper.connect();
  const woken = () => told.flatMap((message) => (message.type === 'woken' ? [message.wakeUps] : []));
  const until = (fact: () => boolean) =>
    eventually('what it is told', async () => fact(), { withinMs: PATIENCE_MS, seen: async () => told });
  return { keeper, told, woken, until };
}

describe('an instance that listens', () => {
  it('hears what is for all and what is for it, and nothing else', async () => {
    const { woken, until } = await listener('me');
    await notify('told another');
    await notify('something of a later version');
    await notify('runs');
    await until(() => woken().length === 1);
    expect(woken()).toEqual([['runs']]);
    await notify('told me');
    await notify('jobs');
    await until(() => woken().flat().length === 3);
    expect(woken().slice(1).flat().sort()).toEqual(['jobs', 'told']);
  });

  it('is woken a few times by a flood', async () => {
    const { woken, until } = await listener('me');
    for (let n = 0; n < 300; n++) await notify('runs');
    await notify('jobs');
    await until(() => woken().flat().includes('jobs'));
    expect(woken().length).toBeLessThan(100);
  });

  it('connects again when its connection was lost, and is woken once for all that it may have missed', async () => {
    const { told, woken, until } = await listener('me');
    wire.cut();
    await until(() => told.some(({ type }) => type === 'failed'));
    await notify('runs');
    wire.mend();
    await until(() => woken().length === 1);
    expect(told.filter(({ type }) => type !== 'listening')).toMatchObject([
      { type: 'failed', trouble: { kind: 'unreachable' } },
      { type: 'recovered' },
      { type: 'woken', wakeUps: EVERY_WAKE_UP },
    ]);
    await notify('runs');
    await until(() => woken().length === 2);
    expect(woken()[1]).toEqual(['runs']);
  });

  it('tells of a password that ran out while the server was away, for its thread to get another', async () => {
    const { keeper, told, until } = await listener('me');
    const failedWith = (kind: string) =>
      until(() => told.some((message) => message.type === 'failed' && message.trouble?.kind === kind));
    wire.cut();
    await failedWith('unreachable');
    keeper.changePassword('the one of yesterday');
    wire.mend();
    await failedWith('password');
    keeper.changePassword(decodeURIComponent(new URL(database.url).password));
    await until(() => told.some(({ type }) => type === 'recovered'));
    expect(told.filter(({ type }) => type === 'failed')).toHaveLength(2);
  });

  it('asks nothing while nothing happens', async () => {
    await listener('me');
    const last = () =>
      database.query<{ query: string }>(
        `select query, state_change from pg_stat_activity where application_name = 'me'`,
      );
    const before = await last();
    expect(before).toMatchObject([{ query: `listen ${TABLES.wakeUps}` }]);
    await sleep(1_000);
    expect(await last()).toEqual(before);
  });

  it('and is frozen holds up neither who notifies nor who listens', async () => {
    await listener('frozen');
    expect(wire.silenceConnections('frozen')).toBe(1);
    const { woken, until } = await listener('me', database.url);
    // More than any connection holds of what it can't deliver.
    for (let n = 0; n < 5; n++)
      await database.query(
        `select count(pg_notify('${TABLES.wakeUps}', 'told ' || n)) from generate_series(1, 50000) n`,
      );
    const stuck = () =>
      database.query(`select from pg_stat_activity where application_name = 'frozen' and wait_event = 'ClientWrite'`);
    await eventually('what it does not read to be held up', async () => (await stuck()).length === 1);
    await notify('runs');
    await until(() => woken().length === 1);
    const [queue] = await database.query<{ used: number }>('select pg_notification_queue_usage() as used');
    expect(queue!.used).toBeLessThan(0.01);
  });
});

describe('whether it is heard', () => {
  const listening = (told: FromThread[]) =>
    told.flatMap((message) => (message.type === 'listening' ? [message.isHeard] : []));

  it('is told when it begins, when the connection is lost, and when it is made again', async () => {
    const { told, until } = await listener('me');
    expect(listening(told)).toEqual([true]);
    wire.cut();
    await until(() => listening(told).length === 2);
    expect(listening(told)).toEqual([true, false]);
    wire.mend();
    await until(() => listening(told).length === 3);
    expect(listening(told)).toEqual([true, false, true]);
  });
});

describe('a thread that takes the place of one that died', () => {
  it('listens again', async () => {
    const heard: FromThread[] = [];
    let replaced = () => {};
    const again = new Promise<void>((resolve) => (replaced = resolve));
    const url = new URL(database.url);
    const options = {
      host: url.hostname,
      port: Number(url.port),
      username: url.username,
      password: decodeURIComponent(url.password),
      database: url.pathname.slice(1),
    };
    const watch = { pulse: new Pulse().memory, blockedAfterMs: 5_000, instanceId: 'me', logging: false };
    const thread = new HeartbeatThread(
      () => connectionSettings(options, 'replaced'),
      { schema: 'public', watch },
      { hear: (message) => heard.push(message), failed: () => {}, ended: () => {}, replaced },
    );
    ends.push(() => thread.stop());
    await thread.start();
    const until = (fact: () => boolean) =>
      eventually('a wake-up', async () => fact(), { withinMs: PATIENCE_MS, seen: async () => heard });
    const wakeUps = () => heard.flatMap((message) => (message.type === 'woken' ? [message.wakeUps] : []));
    // No message of ours: the thread dies of it.
    thread.post(null as never);
    await again;
    await until(() => wakeUps().length === 1);
    await notify('runs');
    await until(() => wakeUps().length === 2);
    expect(wakeUps()).toEqual([EVERY_WAKE_UP, ['runs']]);
  });
});

describe('the channel', () => {
  it.each(['public', 'Müll "und" mehr', 'x'.repeat(63), "'; drop table job_runs --"])(
    'of the schema %s is a name that needs no quotes',
    (schema) => {
      expect(wakeUpChannel(schema)).toMatch(/^[a-z_][a-z0-9_]{1,62}$/);
    },
  );

  it('is each schema’s own', () => {
    expect(new Set(['public', 'other', 'Public'].map(wakeUpChannel)).size).toBe(3);
  });

  it('carries nothing for an instance that is not named whole', () => {
    expect(readWakeUp('told me', 'me')).toBe('told');
    expect(readWakeUp('told me-2', 'me')).toBeNull();
    expect(readWakeUp(undefined, 'me')).toBeNull();
  });
});
