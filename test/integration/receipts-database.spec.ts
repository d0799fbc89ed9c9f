import { Injectable } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CronRun, DistributedCron, ReceiptService } from '../../lib/index.js';
import { runJob } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp } from './support/apps.js';

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

describe('a receipt', () => {
  it('does not care for a stricter default isolation: a lease that was renewed meanwhile is still ours', async () => {
    const [{ name }] = (await database.query<{ name: string }>('select current_database() as name')) as [
      { name: string },
    ];
    await database.query(`alter database ${name} set default_transaction_isolation = 'repeatable read'`);
    @Injectable()
    class Job {
      constructor(private readonly receipts: ReceiptService) {}

      @DistributedCron('0 * * * *', { name: 'strict' })
      async run(run: CronRun) {
        await this.receipts.once('1', () =>
          database.query(`update job_runs set lease_until = lease_until + interval '1 second' where fire_time = $1`, [
            run.fireTime,
          ]),
        );
      }
    }
    const app = await startApp(database, { providers: [Job] }, { enabled: false });
    expect(await runJob(app, 'strict')).toMatchObject({ type: 'run.completed' });
  });

  it('takes a missing partition of the application’s own for what it is: the effect is tried once', async () => {
    await database.query('create table bills (at date) partition by range (at)');
    let tries = 0;
    @Injectable()
    class Job {
      constructor(private readonly receipts: ReceiptService) {}

      @DistributedCron('0 * * * *', { name: 'bills' })
      async run() {
        await this.receipts.once('1', async (manager) => {
          tries += 1;
          await manager.query('insert into bills values (now())');
        });
      }
    }
    const app = await startApp(database, { providers: [Job] }, { enabled: false });
    expect(await runJob(app, 'bills')).toMatchObject({
      type: 'run.failed',
      error: { message: expect.stringContaining('no partition of relation "bills"') },
    });
    expect(tries).toBe(1);
  });
});
