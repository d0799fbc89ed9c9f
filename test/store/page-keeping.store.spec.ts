import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { OwnedRun } from '../../lib/options/run.js';
import { FanOutStore, PageStore } from '../../lib/fan-out/page.repository.js';
import { PageKeepingStore } from '../../lib/fan-out/page-keeper.service.js';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let pages: PageStore;
let keeping: PageKeepingStore;
beforeAll(async () => {
  stores = await openStores();
  pages = new PageStore(stores.database, stores.partitions);
  keeping = new PageKeepingStore(stores.database);
});
afterAll(() => stores.close());

const FIRE_TIME = secondsAgo(60);
const AFTER = { goneForMs: 60_000, stillForMs: 600_000 };
const change = (page: string, columns: string) =>
  stores.test.query(`update job_pages set ${columns} where page = $1`, [page]);
const found = () =>
  stores.test.query<{ page: string; status: string; ticket: number; open: boolean }>(
    'select page, status, ticket, enqueued_at is null as open from job_pages order by page',
  );
const recover = async () => keeping.recover(await keeping.open(['job']), AFTER);
const toHandOver = async () =>
  (await keeping.outlook(['job'], 100)).toHandOver.map(({ page, ticket }) => `${page} ${ticket}`).sort();

/** An occurrence with two pages that the queue has. */
beforeEach(async () => {
  await stores.test.query('truncate job_runs, job_pages, job_schedule, job_instances');
  await stores.claims.claimDue([aDue('job', FIRE_TIME)], 'A');
  const run = { jobName: 'job', fireTime: FIRE_TIME, attempt: 1, instanceId: 'A' } as OwnedRun;
  await pages.add(
    run,
    ['a', 'b'].map((page) => ({ page, data: null })),
  );
  await pages.handedOver(await pages.toHandOver(run, ['a', 'b']));
  await new FanOutStore(stores.database).complete(run);
});

describe('pages that nobody has in hand', () => {
  it('are left to their queue while anything of their occurrence moves', async () => {
    await change('a', `enqueued_at = now() - interval '1 hour'`);
    await change('b', `status = 'done', next_attempt_at = null, finished_at = now() - interval '1 minute'`);
    expect(await recover()).toBe(0);
    expect(await toHandOver()).toEqual([]);
  });

  it('are handed over again, with a new ticket, when nothing has moved for long: the queue has lost them', async () => {
    await change('a', `enqueued_at = now() - interval '1 hour'`);
    await change('b', `status = 'done', next_attempt_at = null, finished_at = now() - interval '11 minutes'`);
    expect(await recover()).toBe(1);
    await change('a', `created_at = now() - interval '1 hour'`);
    expect(await toHandOver()).toEqual(['a 1']);
  });

  it('are queued again when their process is gone, and not while it is there', async () => {
    for (const [page, instance] of [
      ['a', 'gone'],
      ['b', 'there'],
    ]) {
      await change(
        page!,
        `status = 'running', attempt = 1, claimed_by = '${instance}', next_attempt_at = null, started_at = now() - interval '10 minutes'`,
      );
      await stores.test.query(
        `insert into job_instances (id, jobs, handlers, alive_until) values ($1, '[]', '[]', now() + $2::interval)`,
        [instance, instance === 'there' ? '5 seconds' : '-2 minutes'],
      );
    }
    expect(await recover()).toBe(1);
    expect(await found()).toEqual([
      { page: 'a', status: 'queued', ticket: 1, open: true },
      { page: 'b', status: 'running', ticket: 0, open: false },
    ]);
  });

  it('of an occurrence that is to be cancelled, or of other jobs, are not handed over', async () => {
    await change('a', `enqueued_at = null, created_at = now() - interval '1 hour'`);
    expect(await toHandOver()).toEqual(['a 0']);
    expect((await keeping.outlook(['other'], 100)).toHandOver).toEqual([]);
    await stores.test.query('update job_runs set cancel_requested_at = now()');
    expect(await toHandOver()).toEqual([]);
    expect((await keeping.outlook(['job'], 100)).toSettle).toEqual([{ jobName: 'job', fireTime: FIRE_TIME }]);
  });
});
