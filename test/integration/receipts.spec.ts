import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ClaimService, CronRun, DistributedCron, ReceiptService } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.query('create table invoices (id text, fire_time timestamptz)');
});
afterEach(closeApps);
afterAll(() => database.drop());

const reject = (name: string) => {
  throw new Error(name);
};

/** Runs the work as the handler of one occurrence, whose first attempt fails after it, and its second succeeds. */
async function twoAttempts(name: string, work: (run: CronRun, receipts: ReceiptService) => Promise<unknown>) {
  const results: unknown[] = [];
  let first: number | undefined;
  @Injectable()
  class Job {
    constructor(private readonly receipts: ReceiptService) {}

    @DistributedCron('* * * * * *', { name, maxAttempts: 2, backoff: 20 })
    async run(run: CronRun) {
      first ??= run.fireTime.getTime();
      if (run.fireTime.getTime() !== first) return;
      results.push(await work(run, this.receipts).catch((error: unknown) => error));
      if (run.attempt === 1) throw new Error('again');
    }
  }
  const app = await startApp(database, { providers: [Job] });
  const { fireTime } = await nextEvent(app, 'run.completed', ({ attempt }) => attempt === 2);
  return { results, fireTime, receipts: await app.get(ClaimService).receiptsOf({ jobName: name, fireTime }) };
}

const invoicesOf = (fireTime: Date) => database.query('select id from invoices where fire_time = $1', [fireTime]);

describe('ReceiptService.once', () => {
  it('does an effect at the first attempt and gives its result at the second', async () => {
    const { results, fireTime, receipts } = await twoAttempts('once', ({ fireTime: at, attempt }, service) =>
      service.once(4711, async (manager) => {
        await manager.query('insert into invoices values ($1, $2)', ['4711', at]);
        return { number: 'R-1', attempt };
      }),
    );
    expect(results).toEqual([
      { applied: true, result: { number: 'R-1', attempt: 1 } },
      { applied: false, result: { number: 'R-1', attempt: 1 } },
    ]);
    expect(await invoicesOf(fireTime)).toEqual([{ id: '4711' }]);
    expect(receipts).toMatchObject([
      { entity: '4711', effect: 'default', attempt: 1, idempotencyKey: expect.stringMatching(/^[\w-]{43}$/) },
    ]);
  });

  it('takes both back, effect and receipt, when the effect throws, and does it at the next attempt', async () => {
    const { results, fireTime, receipts } = await twoAttempts('rolled-back', ({ fireTime: at, attempt }, service) =>
      service.once('4712', async (manager) => {
        await manager.query('insert into invoices values ($1, $2)', [`4712 at attempt ${attempt}`, at]);
        if (attempt === 1) reject('half-way');
      }),
    );
    expect(results).toEqual([new Error('half-way'), { applied: true, result: undefined }]);
    expect(await invoicesOf(fireTime)).toEqual([{ id: '4712 at attempt 2' }]);
    expect(receipts).toMatchObject([{ entity: '4712', attempt: 2 }]);
  });

  it('tells effects on one entity apart, and does many beside each other', async () => {
    const { results, receipts } = await twoAttempts('many', async (_run, service) => {
      const entities = Array.from({ length: 30 }, (_, index) => `customer ${index}`);
      const outcomes = await Promise.all([
        ...entities.map((entity) => service.once(entity, () => entity)),
        service.once('customer 0', () => 'mail', { effect: 'mail' }),
      ]);
      return outcomes.filter(({ applied }) => applied).length;
    });
    expect(results).toEqual([31, 0]);
    expect(receipts).toHaveLength(31);
  });

  it('keeps the effect, whatever it returned; the result, if it is JSON that PostgreSQL takes', async () => {
    const RESULTS: [what: string, result: unknown, kept: unknown][] = [
      ['more than 64 kB', 'x'.repeat(70_000), undefined],
      ['a function', () => {}, undefined],
      ['a bigint', 1n, undefined],
      ['a NUL character', 'a\u0000b', undefined],
      ['half a pair', '\ud800', undefined],
      ['null', null, null],
      ['false', false, false],
      ['a date', new Date(0), '1970-01-01T00:00:00.000Z'],
    ];
    const { results, receipts } = await twoAttempts('results', (_run, service) =>
      Promise.all(RESULTS.map(async ([what, result]) => [what, await service.once(what, () => result)])),
    );
    expect(results).toEqual([
      RESULTS.map(([what, result]) => [what, { applied: true, result }]),
      RESULTS.map(([what, , kept]) => [what, { applied: false, result: kept }]),
    ]);
    expect(receipts).toHaveLength(RESULTS.length);
  });

  it('is refused inside another, and the outer one is taken back with it', async () => {
    const { results, receipts } = await twoAttempts('nested', (_run, service) =>
      service.once('outer', () => service.once('inner', () => {})),
    );
    expect(results).toEqual([
      expect.objectContaining({ code: 'nested-transaction' }),
      expect.objectContaining({ code: 'nested-transaction' }),
    ]);
    expect((results[0] as Error).message).toMatch(/once\("inner"\).*once\("outer"\)/);
    expect(receipts).toEqual([]);
  });

  it('is refused for an entity without a usable name', async () => {
    const { results } = await twoAttempts('nameless', (_run, service) => service.once('', () => {}));
    expect(results[0]).toMatchObject({ code: 'invalid-entity' });
  });

  it('is refused outside a run', async () => {
    const app = await startApp(database, {});
    await expect(app.get(ReceiptService).once('4711', () => {})).rejects.toThrow(
      expect.objectContaining({ code: 'outside-run' }),
    );
  });

  it('belongs to the run through timers and promises that the handler awaits', async () => {
    const { results } = await twoAttempts('deep', async (_run, service) => {
      await new Promise((resolve) => setTimeout(resolve, 10));
      return Promise.all([1, 2].map(async (entity) => (await service.once(entity, () => entity)).result));
    });
    expect(results).toEqual([
      [1, 2],
      [1, 2],
    ]);
  });
});
