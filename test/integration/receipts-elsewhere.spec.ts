import { AsyncLocalStorage } from 'node:async_hooks';
import type { EntityManager } from 'typeorm';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { InvalidOptionsError, ReceiptService, SchedulerEvents, type CronRun, type EventOf } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps } from './support/apps.js';
import { withEnvironment } from './support/environment.js';
import { inRun } from './support/in-run.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.query('create table effects (what text)');
});
beforeEach(() => database.query('truncate effects'));
afterEach(closeApps);
afterAll(() => database.drop());

const write = (what: string) => async (manager: EntityManager) => {
  await manager.query('insert into effects values ($1)', [what]);
  return what;
};
const written = async () =>
  (await database.query<{ what: string }>('select what from effects order by what')).map(({ what }) => what);

/** Runs what is given to it as a listener that was set up before every run. */
const outOfContext = AsyncLocalStorage.snapshot() as <Result>(work: () => Result) => Result;

describe('a receipt that is given its run', () => {
  it('belongs to it where the context is lost, and the run waits for it', async () => {
    await inRun(database, async ({ receipts, run }) => {
      await outOfContext(() =>
        expect(receipts.once('a', write('a'))).rejects.toThrow(expect.objectContaining({ code: 'outside-run' })),
      );
      await outOfContext(() => receipts.once('a', write('a'), { run }));
      expect(await receipts.onceEach(['a', 'b'], (what, manager) => write(what)(manager), { run })).toMatchObject({
        applied: 1,
        skipped: 1,
      });
      const left: string[] = [];
      for await (const one of receipts.pending(['b', 'c'], { run })) left.push(one);
      expect(left).toEqual(['c']);
    });
    expect(await written()).toEqual(['a', 'b']);
  });

  it('is found from outside every context, and refused when that run has ended, or is none', async () => {
    let given!: CronRun;
    let service!: ReceiptService;
    let began!: () => void;
    const begun = new Promise<void>((resolve) => (began = resolve));
    let end!: () => void;
    const over = new Promise<void>((resolve) => (end = resolve));
    const ended = inRun(database, async ({ receipts, run }) => {
      [given, service] = [run, receipts];
      began();
      await over;
    });
    await begun;
    expect(await service.once('a', write('a'), { run: given })).toMatchObject({ applied: true });
    await expect(service.once('b', write('b'))).rejects.toThrow(expect.objectContaining({ code: 'outside-run' }));
    end();
    await ended;
    await expect(service.once('b', write('b'), { run: given })).rejects.toThrow(
      expect.objectContaining({ code: 'after-run' }),
    );
    const { jobName, fireTime } = given;
    await expect(service.once('b', write('b'), { run: { jobName, fireTime } as CronRun })).rejects.toThrow(
      /onceForOccurrence/,
    );
    expect(await written()).toEqual(['a']);
  });
});

describe('ReceiptService.onceForOccurrence', () => {
  it('is once beside the handler and after it, without a run of its own', async () => {
    let service!: ReceiptService;
    const { run } = await inRun(database, async (here) => {
      service = here.receipts;
      await here.receipts.once('a', write('a'));
      return here;
    });
    const { jobName, fireTime } = run;
    const occurrence = { jobName, fireTime };
    expect(await service.onceForOccurrence(occurrence, 'a', write('a'))).toEqual({ applied: false, result: 'a' });
    const both = await Promise.all(
      ['b', 'b'].map((entity) => service.onceForOccurrence(occurrence, entity, write(entity))),
    );
    expect(both.filter(({ applied }) => applied)).toHaveLength(1);
    expect(both).toContainEqual({ applied: false, result: 'b' });
    const swallowed = service.onceForOccurrence(
      occurrence,
      'c',
      async (manager) => void (await manager.query('no sql').catch(() => {})),
    );
    await expect(swallowed).rejects.toThrow(/aborted/);
    expect(await written()).toEqual(['a', 'b']);
    expect(
      await database.query('select entity, attempt from receipts where job_name = $1 order by entity', [jobName]),
    ).toEqual([
      { entity: 'a', attempt: 1 },
      { entity: 'b', attempt: 1 },
    ]);
  });

  it('refuses an occurrence that there is not: its receipt would be nobody’s', async () => {
    await inRun(database, async ({ receipts, run: { jobName, fireTime } }) => {
      const at = (offset: number) => ({ jobName, fireTime: new Date(fireTime.getTime() + offset) });
      await expect(receipts.onceForOccurrence(at(1), 'a', write('a'))).rejects.toThrow(
        expect.objectContaining({ code: 'unknown-run' }),
      );
      await expect(receipts.onceForOccurrence({ jobName: 'none', fireTime }, 'a', write('a'))).rejects.toThrow(
        expect.objectContaining({ code: 'unknown-run' }),
      );
      await expect(
        receipts.onceForOccurrence({ jobName, fireTime: 'yesterday' as unknown as Date }, 'a', write('a')),
      ).rejects.toThrow(InvalidOptionsError);
      await expect(receipts.onceForOccurrence(undefined as never, 'a', write('a'))).rejects.toThrow(
        InvalidOptionsError,
      );
    });
    expect(await written()).toEqual([]);
  });
});

describe('an effect that bypasses its manager', () => {
  const bypassed = async (NODE_ENV: string) =>
    withEnvironment({ NODE_ENV }, () =>
      inRun(database, async ({ receipts, app, run }) => {
        const told: EventOf<'receipt.bypassed'>[] = [];
        app
          .get(SchedulerEvents)
          .of('receipt.bypassed')
          .subscribe((event) => told.push(event));
        const elsewhere = () => database.query(`insert into effects values ('elsewhere')`);
        for (const entity of ['a', 'b']) await receipts.once(entity, elsewhere);
        await receipts.onceEach(['c', 'd'], elsewhere, { effect: 'mail' });
        await receipts.once('e', write('e'));
        await receipts.once('f', (manager) => manager.transaction(write('f')), { effect: 'nested' });
        await receipts.onceEach(['g'], (what, manager) => write(what)(manager), { effect: 'each' });
        return told.map(({ jobName, entity, effect }) => ({ same: jobName === run.jobName, entity, effect }));
      }),
    );

  it('is told of in development, once for each effect of a job', async () => {
    expect(await bypassed('test')).toEqual([
      { same: true, entity: 'a', effect: 'default' },
      { same: true, entity: 'c', effect: 'mail' },
    ]);
  });

  it('is not looked for in production', async () => {
    expect(await bypassed('production')).toEqual([]);
  });
});
