import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { OwnedRun } from '../../lib/options/run.js';
import { EndWriter } from '../../lib/runs/end-writer.js';
import { DONE, type RunEnd } from '../../lib/runs/outcome.js';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());

const failed = (message: string, changes: Partial<RunEnd> = {}): RunEnd => ({
  status: 'failed',
  reason: null,
  error: { name: 'Error', message, stack: null },
  retryInMs: 1_000,
  releases: 0,
  ...changes,
});

async function owned(...names: string[]): Promise<OwnedRun[]> {
  const { answers } = await stores.claims.claimDue(
    names.map((name) => aDue(name, secondsAgo(5))),
    'A',
  );
  return answers.map((answer) => ({
    ...answer,
    attempt: 1,
    releases: 0,
    trigger: 'schedule',
    beside: false,
    data: undefined,
    instanceId: 'A',
    leaseMs: 60_000,
    leaseUntil: answer.leaseUntil!,
    leaseDeadline: Infinity,
  }));
}
const rows = (name: string) =>
  stores.test.query<{ job_name: string; status: string; message: string | null }>(
    `select job_name, status, error ->> 'message' as message from job_runs where job_name like $1 order by 1`,
    [`${name}%`],
  );

describe('an end that the database refuses', () => {
  it('fails none of those that are written together with it, and is written in plain text', async () => {
    const writer = new EndWriter(stores.runs);
    const [one, two, three] = (await owned('together-1', 'together-2', 'together-3')) as [OwnedRun, OwnedRun, OwnedRun];
    const ends = await Promise.all([
      writer.write(one, DONE),
      writer.write(two, failed('nothing \0 here')),
      writer.write(three, failed('refused: é')),
    ]);
    expect(ends).toMatchObject([{ status: 'done' }, { status: 'failed' }, { status: 'failed' }]);
    expect(await rows('together')).toEqual([
      { job_name: 'together-1', status: 'done', message: null },
      { job_name: 'together-2', status: 'failed', message: 'nothing \\u{0} here' },
      { job_name: 'together-3', status: 'failed', message: 'refused: é' },
    ]);
  });

  it('because its next attempt would be after the end of time is written with one that is not', async () => {
    const [run] = (await owned('later')) as [OwnedRun];
    expect(await new EndWriter(stores.runs).write(run, failed('far', { retryInMs: 1e300 }))).toMatchObject({
      status: 'failed',
    });
  });
});

describe('what is stored of a job or a run, whatever it is,', () => {
  it('is in the way of no look', async () => {
    await owned('odd', 'even');
    await stores.test.query(
      `update job_schedule set policies = '[1, "x"]', earlier_holds = '"never"' where name = 'odd'`,
    );
    await stores.test.query(
      `update job_runs set started_at = '4700-01-01 BC', finished_at = '290000-01-01', attempt = 1000000, status = case job_name when 'odd' then 'done' else 'queued' end, next_attempt_at = case job_name when 'even' then now() end
       where  job_name in ('odd', 'even')`,
    );
    await stores.test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at, backfill_id) values ('odd', $1, 'queued', 'backfill', now(), gen_random_uuid())`,
      [secondsAgo(60)],
    );
    expect(await stores.reaper.outlook(['odd', 'even'])).toMatchObject({ nextAttempt: expect.any(Date) });
    const known = ['odd', 'even'].map((name) => ({
      name,
      maxAttempts: 3,
      overlap: 'forbid' as const,
      nextDueAt: new Date(Date.now() + 60_000),
    }));
    expect(await stores.reaper.waiting(known, 10)).toMatchObject([{ jobName: 'even' }]);
  });
});
