import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { inTransaction } from '../../lib/store/transaction.js';
import { blocked } from '../support/gate.js';
import { aJob } from '../support/job.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(() => stores.test.query('delete from job_schedule'));

describe('remembered watermarks', () => {
  it('are written in the order of the names, wherever their rows lie: nobody deadlocks', async () => {
    const jobs = ['d', 'c', 'b', 'a'].map((name) => aJob(name, '* * * * *'));
    for (const job of jobs) await stores.schedules.declare([job], null);
    await stores.test.query('update job_schedule set decided_until = $1', [secondsAgo(60)]);
    const watermarks = jobs.map((job) => ({ job, decidedUntil: secondsAgo(10).getTime() }));
    let remembering = Promise.resolve();
    await inTransaction(stores.database.coordination, async (query) => {
      await query(`select from job_schedule where name = 'a' for no key update`);
      remembering = stores.schedules.remember(watermarks);
      await blocked(stores.test, 1);
      expect(await stores.test.query(`select name from job_schedule for no key update skip locked`)).toHaveLength(3);
    });
    await remembering;
    expect(await stores.test.query('select distinct decided_until from job_schedule')).toEqual([{ decided_until: secondsAgo(10) }]);
  });
});
