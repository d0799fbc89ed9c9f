import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  DistributedCron,
  DistributedCronPage,
  FanOutService,
  ReceiptService,
  SchedulerService,
  type CronRun,
  type Page,
} from '../../lib/index.js';
import { DistributedCronBullMqModule } from '../../lib/bullmq/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, startApp } from '../integration/support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

@Injectable()
class Statements {
  constructor(
    private readonly fanOut: FanOutService,
    private readonly receipts: ReceiptService,
  ) {}

  @DistributedCron('0 0 1 1 *', { name: 'monthly-statements' })
  publish() {
    return this.fanOut.publish(Array.from({ length: 60 }, (_, index) => ({ from: index * 10 })));
  }

  @DistributedCronPage('monthly-statements', { backoff: 10 })
  async send(run: CronRun, page: Page<{ from: number }>) {
    for (let customer = page.data.from; customer < page.data.from + 10; customer++) {
      if (run.attempt === 1 && customer % 100 === 55) throw new Error('in the middle of a page');
      await this.receipts.once(customer, () => 'sent');
    }
  }
}

describe('an application with DistributedCronBullMqModule', () => {
  it('needs nothing but the scheduler’s own database, fans out over its replicas, and sends each statement once', async () => {
    const replicas = await Promise.all(
      [1, 2].map(() =>
        startApp(
          database,
          { imports: [DistributedCronBullMqModule.forRoot()], providers: [Statements] },
          { pollInterval: '100ms' },
        ),
      ),
    );
    const ended = Promise.race(replicas.map((app) => nextEvent(app, 'run.completed')));
    await replicas[0]!.get(SchedulerService).runNow('monthly-statements', { by: 'test' });
    await ended;
    expect(await database.query('select status, count(*)::integer as pages from job_pages group by status')).toEqual([
      { status: 'done', pages: 60 },
    ]);
    expect(
      await database.query(
        'select count(*)::integer as receipts, count(distinct entity)::integer as customers from receipts',
      ),
    ).toEqual([{ receipts: 600, customers: 600 }]);
    expect(await database.query('select count(*)::integer as again from job_pages where attempt = 2')).toEqual([
      { again: 6 },
    ]);
  });

  it.each([
    [{ redis: 'redis://127.0.0.1', connection: 'postgres://127.0.0.1/x' }, 'redis and connection: give one of them.'],
    [{ redeliverafter: '1s' }, 'Unknown option "redeliverafter"; did you mean "redeliverAfter"?'],
    [{ redis: 'localhost' }, 'redis: expected a URL (redis, rediss) or an object of options'],
  ])('refuses %o', async (options, problem) => {
    await expect(
      startApp(database, { imports: [DistributedCronBullMqModule.forRoot(options as never)] }),
    ).rejects.toThrow(problem);
  });
});
