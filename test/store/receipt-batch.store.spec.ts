import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { EntityManager } from 'typeorm';
import type { OwnedRun } from '../../lib/options/run.js';
import { inMergedTransaction } from '../../lib/database/transactions.js';
import { isRefusedClose } from '../../lib/database/sql-state.js';
import { ReceiptRepository } from '../../lib/receipts/receipt.repository.js';
import { aDue } from '../support/due.js';
import { blocked } from '../support/gate.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let batches: ReceiptRepository;
let run: OwnedRun;

beforeAll(async () => {
  stores = await openStores();
  batches = new ReceiptRepository(stores.database);
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query('delete from job_runs');
  await stores.test.query('delete from receipts');
  const fireTime = secondsAgo(1);
  const { answers } = await stores.claims.claimDue([aDue('job', fireTime, { leaseMs: 60_000 })], 'A');
  run = {
    jobName: 'job',
    fireTime,
    attempt: 1,
    releases: 0,
    trigger: 'schedule',
    beside: false,
    instanceId: 'A',
    leaseMs: 60_000,
    leaseUntil: answers[0]!.leaseUntil!,
    leaseDeadline: 0,
  };
});

const entries = (...entities: string[]) => entities.map((entity) => ({ entity, idempotencyKey: `key of ${entity}` }));

/** @returns what was opened; null when it was refused */
async function write(
  entities: string[],
  inside: (manager: EntityManager) => Promise<unknown> = async () => {},
  by: OwnedRun = run,
): Promise<string[] | null> {
  const source = await stores.database.receipts();
  return inMergedTransaction(
    source,
    [batches.beginAll(by, 'default', entries(...entities))],
    async (manager, [rows]) => {
      const opened = batches.begunOf(rows!);
      if (opened) await inside(manager);
      return {
        closing: opened && [stores.receipts.end(by, { entity: entities[0]!, effect: 'default' }, null)],
        result: opened && [...opened].sort(),
      };
    },
  );
}
const receipts = () =>
  stores.test.query('select entity, attempt, claimed_by, idempotency_key from receipts order by entity');

describe('G4 a batch of receipts', () => {
  it('is written where they are missing, whatever they are named', async () => {
    expect(await write([`o'clock`, 'b\\x', '{c,"d"}'])).toEqual(['b\\x', `o'clock`, '{c,"d"}']);
    expect(await write(['$1', `o'clock`])).toEqual(['$1']);
    expect(await receipts()).toEqual(
      ['$1', 'b\\x', `o'clock`, '{c,"d"}']
        .map((entity) => ({ entity, attempt: 1, claimed_by: 'A', idempotency_key: `key of ${entity}` }))
        .sort((a, b) => (a.entity < b.entity ? -1 : 1)),
    );
    expect([...(await batches.withReceipt(stores.database.coordination, run, 'default', ['$1', 'x']))]).toEqual(['$1']);
    expect([...(await batches.withReceipt(stores.database.coordination, run, 'mail', ['$1']))]).toEqual([]);
  });

  it.each<[string, Partial<OwnedRun>]>([
    ['attempt', { attempt: 2 }],
    ['instance', { instanceId: 'B' }],
    ['job', { jobName: 'other' }],
  ])('is refused to another %s', async (_, other) => {
    expect(await write(['a'], async () => {}, { ...run, ...other })).toBeNull();
    expect(await receipts()).toEqual([]);
  });

  it('is refused at its end, when the lease ran out meanwhile', async () => {
    const late = write(['a'], () => stores.test.query(`update job_runs set lease_until = clock_timestamp()`));
    expect(isRefusedClose(await late.catch((error: unknown) => error))).toBe(true);
    expect(await receipts()).toEqual([]);
  });

  it('waits for another that has some of the same, and never in a circle', async () => {
    let letGo!: () => void;
    const held = new Promise<void>((resolve) => (letGo = resolve));
    const first = write(['d', 'b', 'a'], () => held);
    await until(
      async () =>
        (await stores.test.query(`select from pg_locks where locktype = 'advisory' and mode = 'ShareLock' and granted`))
          .length > 0,
    );
    const others = [write(['c', 'a', 'd']), write(['d', 'c', 'b'])];
    await blocked(stores.test, 2);
    letGo();
    expect(await first).toEqual(['a', 'b', 'd']);
    expect((await Promise.all(others)).flat()).toEqual(['c']);
  });
});

async function until(look: () => Promise<boolean>): Promise<void> {
  while (!(await look())) await new Promise((resolve) => setTimeout(resolve, 10));
}
