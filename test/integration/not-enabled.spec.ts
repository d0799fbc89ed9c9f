import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { DistributedCron, JobRegistry } from '../../lib/index.js';
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

function version(expression: string) {
  @Injectable()
  class Job {
    @DistributedCron(expression, { name: 'job' })
    run() {}
  }
  return Job;
}

const start = (expression: string, enabled: boolean) =>
  startApp(database, { providers: [version(expression)] }, { enabled });
const stored = () => database.query('select cron, decided_until from job_schedule');

describe('an instance that is not enabled', () => {
  it('takes no schedule over, though nobody else is there: it follows the one that holds', async () => {
    await (await start('0 4 * * *', true)).close();
    const before = await stored();
    const app = await start('0 3 * * *', false);
    expect(await stored()).toEqual(before);
    expect(app.get(JobRegistry).get('job')!.definition.schedule.expression).toBe('0 4 * * *');
    expect(await database.query('select from job_instances')).toEqual([]);
  });

  it('writes a job that is new', async () => {
    await start('0 3 * * *', false);
    expect(await stored()).toMatchObject([{ cron: '0 3 * * *' }]);
  });
});
