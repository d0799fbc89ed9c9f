import { DataSource, type EntityManager } from 'typeorm';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  EffectsFailedError,
  InvalidOptionsError,
  LeaseLostError,
  SchedulerEvents,
  type EventOf,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps } from './support/apps.js';
import { inRun } from './support/in-run.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.query('create table effects (what text)');
});
beforeEach(() => database.query('truncate effects'));
afterEach(closeApps);
afterAll(() => database.drop());

const write = (what: unknown, manager: EntityManager) =>
  manager.query('insert into effects values ($1)', [String(what)]);
const written = async () =>
  (await database.query<{ what: string }>('select what from effects order by what collate "C"')).map(
    ({ what }) => what,
  );
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);
async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = [];
  for await (const item of items) found.push(item);
  return found;
}
const fails =
  (...bad: unknown[]) =>
  async (what: unknown, manager: EntityManager) => {
    await write(what, manager);
    if (bad.includes(what)) throw new Error(`no ${String(what)}`);
  };

describe('ReceiptService.pending', () => {
  it('gives those without a receipt, in their order, from lists and streams, by name or by key', async () => {
    await inRun(database, async ({ receipts }) => {
      await receipts.onceEach([3, 5, 2_000], write);
      await receipts.once(4, () => {}, { effect: 'mail' });
      expect(await all(receipts.pending(numbers(2_500)))).toEqual(
        numbers(2_500).filter((number) => ![3, 5, 2_000].includes(number)),
      );
      expect(await all(receipts.pending([3, 4, 5], { effect: 'mail' }))).toEqual([3, 5]);
      async function* customers() {
        for (const id of [4, 5, 6]) yield { id };
      }
      expect(await all(receipts.pending(customers(), { key: ({ id }) => id }))).toEqual([{ id: 4 }, { id: 6 }]);
    });
  });

  it('takes of its source only what it needs', async () => {
    await inRun(database, async ({ receipts }) => {
      let taken = 0;
      let closed = false;
      function* endless() {
        try {
          for (;;) yield (taken += 1);
        } finally {
          closed = true;
        }
      }
      for await (const one of receipts.pending(endless())) if (one === 1_500) break;
      expect({ taken, closed }).toEqual({ taken: 2_000, closed: true });
    });
  });
});

describe('ReceiptService.onceEach', () => {
  it('does each effect once, in batches beside each other, whatever is repeated', async () => {
    await inRun(database, async ({ receipts, app }) => {
      const told: EventOf<'receipts.written'>[] = [];
      app
        .get(SchedulerEvents)
        .of('receipts.written')
        .subscribe((event) => told.push(event));
      const given = [...numbers(250), 249, 0];
      expect(await receipts.onceEach(given, write, { batch: 40, concurrency: 4 })).toEqual({
        applied: 250,
        skipped: 2,
        failed: [],
      });
      expect(await receipts.onceEach(given, write, { batch: 40, concurrency: 4 })).toEqual({
        applied: 0,
        skipped: 252,
        failed: [],
      });
      expect(await written()).toEqual(numbers(250).map(String).sort());
      expect(told).toHaveLength(14);
      expect(told.reduce((sum, { applied }) => sum + applied, 0)).toBe(250);
    });
  });

  it('does the others when one fails, one by one in its batch alone, and that one alone at the next call', async () => {
    await inRun(database, async ({ receipts, run }) => {
      let calls = 0;
      const effect = (what: number, manager: EntityManager) => {
        calls += 1;
        return fails(17, 41)(what, manager);
      };
      const first = await receipts
        .onceEach(numbers(100), effect, { batch: 10 })
        .catch((error: unknown) => error as EffectsFailedError);
      expect(first).toBeInstanceOf(EffectsFailedError);
      expect(first).toMatchObject({
        applied: 98,
        skipped: 0,
        stopped: false,
        failed: [
          { entity: '17', item: 17, error: new Error('no 17') },
          { entity: '41', item: 41 },
        ],
      });
      expect((first as Error).message).toBe(
        '2 of 100 effects failed: "17": no 17; "41": no 41. The others are done and will not be repeated.',
      );
      // Eight batches as a whole; of the two others, 8 and 2 effects were taken back, and 10 were done one by one.
      expect(calls).toBe(80 + 8 + 10 + 2 + 10);
      expect(
        await database.query(`select from receipts where job_name = $1 and entity in ('17', '41')`, [run.jobName]),
      ).toEqual([]);
      expect(await receipts.onceEach(numbers(100), write)).toEqual({ applied: 2, skipped: 98, failed: [] });
      expect(await written()).toHaveLength(100);
    });
  });

  it('returns failures where it is asked to, and stops when they are too many', async () => {
    await inRun(database, async ({ receipts }) => {
      const some = await receipts.onceEach(numbers(10), fails(3), { failures: 'return' });
      expect(some).toMatchObject({ applied: 9, skipped: 0, failed: [{ entity: '3' }] });
      const all = receipts.onceEach(numbers(1_000), () => Promise.reject(new Error('never')), {
        effect: 'other',
        maxFailures: 5,
        batch: 10,
        failures: 'return',
      });
      await expect(all).rejects.toMatchObject({ stopped: true, applied: 0, failed: { length: 6 } });
    });
  });

  it('takes of a stream only what its transactions have room for', async () => {
    await inRun(database, async ({ receipts }) => {
      let taken = 0;
      let most = 0;
      async function* endless() {
        for (let count = 0; count < 300; count++) yield { id: (taken += 1) };
      }
      let done = 0;
      await receipts.onceEach(
        endless(),
        async (_, manager) => {
          most = Math.max(most, taken - done);
          await write(1, manager);
          done += 1;
        },
        { key: ({ id }) => id, batch: 20, concurrency: 2 },
      );
      expect(done).toBe(300);
      expect(most).toBeLessThanOrEqual(60);
    });
  });

  it('stops between batches once its run is told to, and what was done stays', async () => {
    await inRun(database, async ({ receipts, run }) => {
      const stopped = receipts.onceEach(
        numbers(100),
        async (what, manager) => {
          await write(what, manager);
          if (what === 25) await database.query('update job_runs set attempt = 2 where job_name = $1', [run.jobName]);
        },
        { batch: 10 },
      );
      await expect(stopped).rejects.toThrow(LeaseLostError);
      expect(await written()).toHaveLength(20);
      expect(run.signal.aborted).toBe(true);
      await expect(receipts.onceEach([1], write)).rejects.toThrow(LeaseLostError);
    });
  });

  it('begins a batch again that a deadlock took back, and blames no entity', async () => {
    await database.query('create table accounts (id int primary key, sum int)');
    await database.query('insert into accounts values (1, 0), (2, 0)');
    await inRun(database, async ({ receipts }) => {
      let at = 0;
      let met!: () => void;
      const both = new Promise<void>((resolve) => (met = resolve));
      const add = async (account: number, manager: EntityManager) => {
        await manager.query('update accounts set sum = sum + 1 where id = $1', [account]);
        if ((at += 1) === 2) met();
        await both;
      };
      const effect = async (_: string, manager: EntityManager, order = _ === 'up' ? [1, 2] : [2, 1]) => {
        for (const account of order) await add(account, manager);
      };
      expect(await receipts.onceEach(['up', 'down'], effect, { batch: 1, concurrency: 2 })).toEqual({
        applied: 2,
        skipped: 0,
        failed: [],
      });
    });
    expect(await database.query('select sum from accounts')).toEqual([{ sum: 2 }, { sum: 2 }]);
  });

  it('ends with the database’s own trouble where that is in the way, not with one for each entity', async () => {
    const mine = await new DataSource({ type: 'postgres', url: database.url, poolErrorHandler: () => {} }).initialize();
    await inRun(database, async ({ receipts }) => {
      const cut = receipts.onceEach(
        numbers(50),
        async (what, manager) => {
          if (what === 15)
            await database.query(`select pg_terminate_backend($1)`, [
              ((await manager.query('select pg_backend_pid() as pid')) as [{ pid: number }])[0].pid,
            ]);
          await write(what, manager);
        },
        { in: mine, batch: 10 },
      );
      await expect(cut).rejects.not.toThrow(EffectsFailedError);
      expect(await written()).toHaveLength(10);
      expect(await receipts.onceEach(numbers(50), write, { in: mine })).toMatchObject({ applied: 40, skipped: 10 });
    });
    await mine.destroy();
  });

  it('refuses what it cannot do, before it does anything', async () => {
    await inRun(database, async ({ receipts }) => {
      const given = (items: unknown, options: object = {}) => receipts.onceEach(items as number[], write, options);
      await expect(given('text')).rejects.toThrow(InvalidOptionsError);
      await expect(given([1], { batch: 0, concurency: 2 })).rejects.toThrow(
        /batch.*at least 1[^]*did you mean "onceEach: concurrency"/,
      );
      await expect(given([{ id: 1 }])).rejects.toThrow(expect.objectContaining({ code: 'invalid-entity' }));
      await expect(receipts.once(1, (manager) => given([1], { in: manager }))).rejects.toThrow(
        expect.objectContaining({ code: 'receipt-place' }),
      );
      expect(await written()).toEqual([]);
    });
  });
});

describe('ReceiptService.onceBatch', () => {
  it('is called once for all of a batch that are to be done, and for one at a time where it failed', async () => {
    await inRun(database, async ({ receipts }) => {
      const calls: number[][] = [];
      const insert = async (items: number[], manager: EntityManager) => {
        calls.push(items);
        await manager.query('insert into effects select unnest($1::text[])', [items.map(String)]);
        if (items.includes(4)) throw new Error('no 4');
      };
      await receipts.onceEach([1], write);
      const outcome = await receipts.onceBatch(numbers(6), insert, { batch: 3, failures: 'return' });
      expect(outcome).toMatchObject({ applied: 4, skipped: 1, failed: [{ item: 4 }] });
      expect(calls).toEqual([[0, 2], [3, 4, 5], [3], [4], [5]]);
      expect(await written()).toEqual(['0', '1', '2', '3', '5']);
    });
  });
});
