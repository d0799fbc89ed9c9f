import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { inTransaction } from '../../lib/database/transactions.js';
import { blocked } from '../support/gate.js';
import { aJob } from '../support/job.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  for (const table of ['job_schedule', 'job_instances']) await stores.test.query(`delete from ${table}`);
});

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
    expect(await stores.test.query('select distinct decided_until from job_schedule')).toEqual([
      { decided_until: secondsAgo(10) },
    ]);
  });
});

describe('a start that finds instances that were not heard of lately', () => {
  const DAYS_MS = 24 * 3_600_000;
  const starts = (aliveMs: number) =>
    stores.schedules.declare([aJob('job', '* * * * *')], { instanceId: 'new', aliveMs, jobs: [], handlers: [] });
  const lapsed = () =>
    stores.test.query(
      `insert into job_instances (id, jobs, handlers, alive_until) values ('lapsed', '{}', '[]', now() - interval '1 minute')`,
    );

  it('takes them for gone, unless the server has only just started: then they may be about to come back', async () => {
    expect(await starts(7 * DAYS_MS)).toMatchObject({ othersMayBeBack: false });
    await lapsed();
    expect(await starts(7 * DAYS_MS)).toMatchObject({ othersMayBeBack: true });
    await stores.test.query(`delete from job_instances where id = 'new'`);
    expect(await starts(1)).toMatchObject({ othersMayBeBack: false });
  });
});

describe('a server that is another than the one that was trusted, or the same after a restart', () => {
  const ALIVE = { instanceId: 'A', aliveMs: 60_000, jobs: [], handlers: [] };
  const job = aJob('job', '* * * * *');
  const watermark = async () =>
    (await stores.test.query<{ decided_until: Date }>('select decided_until from job_schedule'))[0]!.decided_until;

  it('is seen when an instance looks in, also where a pooler keeps the connections: it is told of all jobs', async () => {
    const { seenOn } = await stores.schedules.declare([job], ALIVE);
    stores.schedules.trust(seenOn);
    expect(await stores.schedules.lookIn(ALIVE, 1_000)).toMatchObject({ isOther: false, jobs: [] });
    stores.schedules.trust({ ...seenOn, server: 'the one before' });
    const seen = await stores.schedules.lookIn(ALIVE, 1_000);
    expect(seen).toMatchObject({ isOther: true, jobs: [{ name: 'job' }], seenOn });
    stores.schedules.trust(seen.seenOn);
    expect(await stores.schedules.lookIn(ALIVE, 1_000)).toMatchObject({ isOther: false, jobs: [] });
  });

  it('is told of no watermark until the rows were compared: what it lacks would be decided for ever', async () => {
    const { seenOn } = await stores.schedules.declare([job], ALIVE);
    await stores.test.query('update job_schedule set decided_until = $1', [secondsAgo(600)]);
    for (const other of [
      { ...seenOn, server: 'the one before' },
      { ...seenOn, lost: seenOn.lost - 1 },
    ]) {
      stores.schedules.trust(other);
      await stores.schedules.remember([{ job, decidedUntil: secondsAgo(60).getTime() }]);
      expect(await watermark()).toEqual(secondsAgo(600));
    }
    stores.schedules.trust(seenOn);
    await stores.schedules.remember([{ job, decidedUntil: secondsAgo(60).getTime() }]);
    expect(await watermark()).toEqual(secondsAgo(60));
  });
});
