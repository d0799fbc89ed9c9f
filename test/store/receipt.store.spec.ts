import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import type { EntityManager } from 'typeorm';
import { renewLeases } from '../../lib/runs/heartbeat/lease-keeper.js';
import type { OwnedRun } from '../../lib/options/run.js';
import { blocked } from '../support/gate.js';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let run: OwnedRun;

beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query('delete from job_runs');
  await stores.test.query('delete from receipts');
  run = await claimed(60_000);
});

async function claimed(leaseMs: number): Promise<OwnedRun> {
  const fireTime = secondsAgo(1);
  await stores.test.query('delete from job_runs');
  const { answers } = await stores.claims.claimDue([aDue('job', fireTime, { leaseMs })], 'A');
  return {
    jobName: 'job',
    fireTime,
    attempt: 1,
    releases: 0,
    trigger: 'schedule',
    beside: false,
    instanceId: 'A',
    leaseMs,
    leaseUntil: answers[0]!.leaseUntil!,
    leaseDeadline: 0,
  };
}

const KEY = { entity: 'customer-1', effect: 'default' };
const transaction = async <Result>(work: (manager: EntityManager) => Promise<Result>) =>
  (await stores.database.receipts()).transaction(work);
const receipts = () => stores.test.query('select entity, attempt, claimed_by, result from receipts');

describe('G4 a receipt', () => {
  it('is written once, and gives the first result to whoever comes later', async () => {
    await transaction(async (manager) => {
      expect(await stores.receipts.open(manager, run, KEY, 'key')).toEqual({ kind: 'opened' });
      expect(await stores.receipts.close(manager, run, KEY, '{"invoice":7}')).toBe(true);
    });
    await transaction(async (manager) => {
      expect(await stores.receipts.open(manager, run, KEY, 'key')).toEqual({ kind: 'there', result: { invoice: 7 } });
    });
    expect(await receipts()).toEqual([{ entity: 'customer-1', attempt: 1, claimed_by: 'A', result: { invoice: 7 } }]);
  });

  it('of another effect, entity or occurrence is another receipt', async () => {
    await transaction(async (manager) => {
      for (const key of [KEY, { ...KEY, effect: 'mail' }, { ...KEY, entity: 'customer-2' }]) {
        expect(await stores.receipts.open(manager, run, key, 'key')).toEqual({ kind: 'opened' });
      }
    });
  });

  it('is the database’s own rule: the same one cannot be stored twice', async () => {
    const insert = `insert into receipts (job_name, fire_time, entity, attempt, claimed_by, idempotency_key) values ('job', $1, 'e', 1, 'A', 'k')`;
    await stores.test.query(insert, [run.fireTime]);
    await expect(stores.test.query(insert, [run.fireTime])).rejects.toMatchObject({ code: '23505' });
  });

  it('makes a second one wait for the first, and find it done', async () => {
    let letGo!: () => void;
    const held = new Promise<void>((resolve) => (letGo = resolve));
    let opened!: () => void;
    const isOpen = new Promise<void>((resolve) => (opened = resolve));
    const first = transaction(async (manager) => {
      await stores.receipts.open(manager, run, KEY, 'key');
      opened();
      await held;
    });
    await isOpen;
    const second = transaction(async (manager) => (await stores.receipts.open(manager, run, KEY, 'key')).kind);
    await blocked(stores.test, 1);
    letGo();
    await first;
    expect(await second).toBe('there');
  });

  it('of a transaction that rolls back leaves the effect to the next', async () => {
    const rolledBack = transaction(async (manager) => {
      await stores.receipts.open(manager, run, KEY, 'key');
      throw new Error('no');
    });
    await expect(rolledBack).rejects.toThrow('no');
    expect(await receipts()).toEqual([]);
  });

  it('holds the run at the end against whoever would take it over, not against a heartbeat', async () => {
    const heartbeat = new pg.Client({ connectionString: stores.test.url });
    await heartbeat.connect();
    const lease = { ...run, id: 'x', fireTime: run.fireTime.toISOString() };
    await transaction(async (manager) => {
      await stores.receipts.open(manager, run, KEY, 'key');
      expect(await stores.receipts.close(manager, run, KEY, null)).toBe(true);
      expect((await renewLeases(heartbeat, stores.database.tables, [lease], 5_000)).get('x')).toMatchObject({
        kind: 'renewed',
      });
      expect(await heartbeat.query('select from job_runs for update skip locked')).toMatchObject({ rowCount: 0 });
    });
    expect(await heartbeat.query('select from job_runs for update skip locked')).toMatchObject({ rowCount: 1 });
    await heartbeat.end();
  });

  it.each(['in the middle', 'just before its commit'])(
    'of a process frozen %s is ended by the reaper, and the next attempt goes on',
    async (where) => {
      const short = run;
      let thaw!: () => void;
      let freeze!: () => void;
      const isFrozen = new Promise<void>((resolve) => (freeze = resolve));
      const thawed = new Promise<void>((resolve) => (thaw = resolve));
      const frozen = transaction(async (manager) => {
        await stores.receipts.open(manager, short, KEY, 'key');
        await manager.query('create table effects (attempt integer)');
        if (where !== 'in the middle') expect(await stores.receipts.close(manager, short, KEY, null)).toBe(true);
        freeze();
        await thawed;
        await manager.query('insert into effects values (1)');
      });
      const refused = expect(frozen).rejects.toThrow();
      await isFrozen;
      expect(await stores.reaper.reap([{ name: 'job', maxAttempts: 3, overlap: 'forbid' }], 10)).toEqual([]);
      await stores.test.query('update job_runs set lease_until = clock_timestamp()');
      expect(await stores.reaper.reap([{ name: 'other job', maxAttempts: 3, overlap: 'forbid' }], 10)).toEqual([]);
      for (let reaped = 0; reaped === 0; )
        reaped = (await stores.reaper.reap([{ name: 'job', maxAttempts: 3, overlap: 'forbid' as const }], 10)).length;
      const [waiting] = await stores.reaper.waiting([{ name: 'job', maxAttempts: 3, overlap: 'forbid' }], 1);
      const { answers } = await stores.claims.claimWaiting([{ ...waiting!, overlap: 'forbid', leaseMs: 60_000 }], 'B');
      const next: OwnedRun = { ...short, attempt: answers[0]!.attempt!, instanceId: 'B', leaseMs: 60_000 };
      await transaction(async (manager) => {
        expect((await stores.receipts.open(manager, next, KEY, 'key')).kind).toBe('opened');
      });
      expect(await receipts()).toMatchObject([{ attempt: 2, claimed_by: 'B' }]);
      thaw();
      await refused;
      expect(await stores.test.query(`select to_regclass('effects') as effects`)).toEqual([{ effects: null }]);
    },
  );

  it('that still waits for another can be told, and ended, too', async () => {
    const short = await claimed(300);
    let letGo!: () => void;
    const held = new Promise<void>((resolve) => (letGo = resolve));
    const first = transaction(async (manager) => {
      await manager.query(
        `insert into receipts (job_name, fire_time, entity, attempt, claimed_by, idempotency_key) values ('job', $1, 'customer-1', 1, 'A', 'k')`,
        [short.fireTime],
      );
      await held;
    });
    const second = expect(transaction((manager) => stores.receipts.open(manager, short, KEY, 'key'))).rejects.toThrow();
    await blocked(stores.test, 1);
    await stores.test.query('select pg_sleep(0.4)');
    expect(await stores.reaper.reap([{ name: 'job', maxAttempts: 3, overlap: 'forbid' }], 10)).toHaveLength(1);
    await second;
    letGo();
    await first;
  });
});

describe('two occurrences of one second, as two calls of runNow make them', () => {
  it('do not share a lock: the end of one’s transaction leaves the other’s alone', async () => {
    const owned: OwnedRun[] = [];
    for (const milliseconds of [1, 2]) {
      const [due, fireTime] = [secondsAgo(1 + milliseconds), new Date(run.fireTime.getTime() + milliseconds)];
      await stores.claims.claimDue([aDue('job', due, { leaseMs: 60_000, overlap: 'allow' })], 'A');
      await stores.test.query(`update job_runs set fire_time = $2, trigger = 'manual' where fire_time = $1`, [
        due,
        fireTime,
      ]);
      owned.push({ ...run, fireTime });
    }
    let letGo!: () => void;
    const held = new Promise<void>((resolve) => (letGo = resolve));
    const opened: Promise<void>[] = [];
    const transactions = owned.map((one) => {
      let haveOpened!: () => void;
      opened.push(new Promise((resolve) => (haveOpened = resolve)));
      return transaction(async (manager) => {
        await stores.receipts.open(manager, one, KEY, 'key');
        haveOpened();
        await held;
      }).then(
        () => 'committed',
        () => 'ended',
      );
    });
    await Promise.all(opened);
    await stores.test.query('update job_runs set lease_until = clock_timestamp() where fire_time = $1', [
      owned[0]!.fireTime,
    ]);
    expect(await stores.reaper.reap([{ name: 'job', maxAttempts: 3, overlap: 'allow' }], 10)).toHaveLength(1);
    letGo();
    expect(await Promise.all(transactions)).toEqual(['ended', 'committed']);
  });

  it('and names that read alike when they are put together do not share one either', async () => {
    const [locks] = await stores.test.query<{ page: string; run: string }>(
      `select receipt_lock_1('job', at, 1, extract(epoch from at) || ' 2')::text as page,
              receipt_lock_1('job ' || extract(epoch from at) || ' 1', at, 2, null)::text as run
       from  (select $1::timestamptz as at) fire_time`,
      [run.fireTime],
    );
    expect(locks!.page).not.toBe(locks!.run);
  });
});
