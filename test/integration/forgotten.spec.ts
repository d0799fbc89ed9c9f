import { Injectable, type Type } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { DistributedCron, DistributedSchedulerModule, ReceiptService } from '../../lib/index.js';
import { runJob } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp, startModules } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

/** An application in which nothing runs by itself, with one job that does this work. */
async function appWith(name: string, work: (receipts: ReceiptService) => unknown) {
  @Injectable()
  class Job {
    constructor(private readonly receipts: ReceiptService) {}

    @DistributedCron('0 * * * *', { name, backoff: '1h' })
    run() {
      return work(this.receipts);
    }
  }
  return startApp(database, { providers: [Job] }, { enabled: false });
}

const entitiesOf = async (jobName: string) =>
  (
    await database.query<{ entity: string }>('select entity from receipts where job_name = $1 order by entity', [
      jobName,
    ])
  ).map(({ entity }) => entity);

describe('a receipt that the handler does not await', () => {
  it('is waited for before the run is done', async () => {
    const app = await appWith('unawaited', (receipts) => {
      for (const customer of ['1', '2', '3']) void receipts.once(customer, () => sleep(100));
    });
    expect(await runJob(app, 'unawaited')).toMatchObject({ type: 'run.completed' });
    expect(await entitiesOf('unawaited')).toEqual(['1', '2', '3']);
  });

  it('fails the run when it fails, and ends no process', async () => {
    const app = await appWith('unawaited-failing', (receipts) => {
      void receipts.once('1', async () => {
        await sleep(50);
        throw new Error('the effect failed');
      });
    });
    expect(await runJob(app, 'unawaited-failing')).toMatchObject({
      type: 'run.failed',
      error: { message: 'the effect failed' },
    });
    expect(await entitiesOf('unawaited-failing')).toEqual([]);
  });

  it('is refused with the reason once the handler has ended', async () => {
    let late: Promise<unknown> = Promise.resolve();
    const app = await appWith('late', (receipts) => {
      setTimeout(() => (late = receipts.once('1', () => {}).catch((error: unknown) => error)), 200);
    });
    expect(await runJob(app, 'late')).toMatchObject({ type: 'run.completed' });
    await sleep(300);
    expect(await late).toMatchObject({ code: 'after-run' });
    expect(await entitiesOf('late')).toEqual([]);
  });

  it('of a handler that throws is waited for before the next attempt may start', async () => {
    const app = await appWith('throws-early', (receipts) =>
      Promise.all([receipts.once('1', () => sleep(200)), Promise.reject(new Error('early'))]),
    );
    expect(await runJob(app, 'throws-early')).toMatchObject({ type: 'run.failed', error: { message: 'early' } });
    expect(await entitiesOf('throws-early')).toEqual(['1']);
  });
});

describe('an entity without a name', () => {
  it.each<[string, unknown]>([
    ['undefined', undefined],
    ['null', null],
    ['not a number', NaN],
    ['an object', {}],
    ['an empty text', ''],
    ['a text of more than 1,000 bytes', '漢'.repeat(334)],
    ['a text with NUL', 'a\u0000'],
    ['half a surrogate pair', '\ud800'],
  ])('is refused: %s', async (name, entity) => {
    let error: unknown;
    const app = await appWith(name, async (receipts) => {
      error = await receipts.once(entity as string, () => {}).catch((thrown: unknown) => thrown);
    });
    await runJob(app, name);
    expect(error).toMatchObject({ code: 'invalid-entity' });
  });

  it('is not what a bigint or a number is', async () => {
    const app = await appWith('numbers', async (receipts) => {
      await receipts.once(7, () => {});
      await receipts.once(2n ** 64n, () => {});
    });
    await runJob(app, 'numbers');
    expect(await entitiesOf('numbers')).toEqual(['18446744073709551616', '7']);
  });
});

describe('runJob', () => {
  it('runs the occurrence it is told, once', async () => {
    const app = await appWith('told', () => {});
    const fireTime = new Date('2026-01-01T03:00:00Z');
    expect(await runJob(app, 'told', { fireTime })).toMatchObject({ type: 'run.completed', fireTime });
    await expect(runJob(app, 'told', { fireTime })).rejects.toThrow(
      'told of 2026-01-01T03:00:00.000Z cannot be run: it is taken.',
    );
  });

  it('refuses an instant at which the job does not fire, and names the nearest', async () => {
    const app = await appWith('exact', () => {});
    const at = (fireTime: unknown) => runJob(app, 'exact', { fireTime } as never);
    await expect(at(new Date('2026-01-01T03:00:01Z'))).rejects.toThrow(
      'Job "exact" does not fire at 2026-01-01T03:00:01.000Z; the nearest fire times are 2026-01-01T03:00:00.000Z and 2026-01-01T04:00:00.000Z.',
    );
    await expect(at(new Date('2026-01-01T03:00:00.001Z'))).rejects.toThrow('2026-01-01T03:00:00.000Z');
    for (const wrong of [new Date(NaN), '2026-01-01T03:00:00Z'])
      await expect(at(wrong)).rejects.toThrow('fireTime: expected a valid Date, got ');
    expect(await database.query(`select from job_runs where job_name = 'exact'`)).toEqual([]);
  });

  it('says which jobs there are', async () => {
    const app = await appWith('known', () => {});
    await expect(runJob(app, 'unknown')).rejects.toThrow('There is no job "unknown"; there are known.');
  });
});

it('the module without forRoot() is a boot error, not an application without jobs', async () => {
  await expect(startModules({ imports: [DistributedSchedulerModule as Type] })).rejects.toThrow(
    expect.objectContaining({ code: 'invalid-module' }),
  );
});
