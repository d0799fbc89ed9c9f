import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { OverdueStore } from '../../lib/maintenance/watches.service.js';
import { aJob } from '../support/job.js';
import { insertRun } from '../support/run-rows.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let overdue: OverdueStore;
beforeAll(async () => {
  stores = await openStores();
  overdue = new OverdueStore(stores.database);
  await stores.partitions.ensure([secondsAgo(86_400), secondsAgo(0)]);
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query('truncate job_runs, job_schedule');
  await stores.schedules.declare([aJob('job', '* * * * *')], null);
  await since(`now() - interval '1 day'`);
});

const since = (sql: string) => stores.test.query(`update job_schedule set effective_from = ${sql}`);
const change = (set: string) => stores.test.query(`update job_schedule set ${set}`);
const EXPECTED = { name: 'job', withinMs: 600_000, catchUpWindowMs: 3_600_000 };
const look = async () => (await overdue.outlook([EXPECTED]))[0];
const isOverdue = async () => ((await look())?.overdueInMs ?? Infinity) <= 0;

async function done(
  fireSecondsAgo: number,
  finishedSecondsAgo: number,
  jobName = 'job',
  status: 'done' | 'failed' = 'done',
): Promise<void> {
  await insertRun(stores.test, jobName, secondsAgo(fireSecondsAgo), status);
  await stores.test.query('update job_runs set finished_at = $1 where job_name = $2 and fire_time = $3', [
    secondsAgo(finishedSecondsAgo),
    jobName,
    secondsAgo(fireSecondsAgo),
  ]);
}

describe('a job that should succeed every ten minutes', () => {
  it('is not overdue after a success, and says when it will be', async () => {
    await done(300, 240);
    const outlook = await look();
    expect(outlook).toMatchObject({ jobName: 'job', lastSuccessAt: secondsAgo(240) });
    expect(outlook!.overdueInMs).toBeGreaterThan(0);
    expect(outlook!.overdueInMs).toBeLessThanOrEqual(360_000);
  });

  it('is overdue when the last success is older, and failures do not help', async () => {
    await done(900, 800);
    await done(100, 50, 'job', 'failed');
    expect(await look()).toMatchObject({ lastSuccessAt: secondsAgo(800) });
    expect(await isOverdue()).toBe(true);
  });

  it('is overdue when it has never succeeded since it is there, not before', async () => {
    expect(await isOverdue()).toBe(true);
    expect((await look())!.lastSuccessAt).toBeNull();
    await since(`now() - interval '5 minutes'`);
    expect(await isOverdue()).toBe(false);
  });

  it.each([`'"never"'`, `'{"until": "long ago"}'`, `'[1, {"until": "long ago"}, {"until": ["now"]}]'`])(
    'is overdue whatever is stored of holds of it, or of another job: %s',
    async (holds) => {
      await stores.schedules.declare([aJob('job', '* * * * *'), aJob('odd', '* * * * *')], null);
      await stores.test.query(
        `update job_schedule set earlier_holds = ${holds}, effective_from = now() - interval '1 day' where name = 'odd'`,
      );
      const outlooks = await overdue.outlook([EXPECTED, { ...EXPECTED, name: 'odd' }]);
      expect(outlooks.map(({ jobName, overdueInMs }) => [jobName, overdueInMs <= 0])).toEqual([
        ['job', true],
        ['odd', true],
      ]);
    },
  );

  it('has succeeded when an old occurrence was caught up', async () => {
    await done(900, 800);
    await done(1_800, 60);
    expect(await look()).toMatchObject({ lastSuccessAt: secondsAgo(60) });
  });

  it.each([
    ['paused_at = now()'],
    ['enabled = false'],
    [`paused_at = now(), paused_until = now() + interval '1 hour'`],
  ])('is not waited for while it is held back: %s', async (held) => {
    await change(held);
    expect(await look()).toBeUndefined();
  });

  it('has its ten minutes again after a pause', async () => {
    await change(`paused_at = now() - interval '1 hour'`);
    await change('paused_at = null');
    expect(await isOverdue()).toBe(false);
    await change(`paused_at = now() - interval '1 hour', paused_until = now() - interval '1 minute'`);
    expect(await isOverdue()).toBe(false);
    await change(
      `paused_at = now() - interval '2 hours', paused_until = now() - interval '1 hour', earlier_holds = '[]'`,
    );
    await change(`earlier_holds = '[]'`);
    expect(await isOverdue()).toBe(true);
  });

  it('has succeeded under its former name', async () => {
    await done(300, 240, 'old');
    expect(await isOverdue()).toBe(true);
    await stores.test.query(
      `insert into job_schedule (name, cron, time_zone, policies, yields_to) values ('old', '* * * * *', 'UTC', '{}', 'job')`,
    );
    expect(await isOverdue()).toBe(false);
  });

  it('is not waited for when it is removed, or decided under another name', async () => {
    await change('removed_at = now()');
    expect(await look()).toBeUndefined();
    await change(`removed_at = null, yields_to = 'new'`);
    expect(await look()).toBeUndefined();
  });
});
