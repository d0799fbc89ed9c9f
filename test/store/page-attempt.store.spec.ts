import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import type { RunEnd } from '../../lib/runs/outcome.js';
import { pageTicket } from '../../lib/fan-out/page.js';
import type { OwnedRun } from '../../lib/options/run.js';
import { FanOutStore, PageAttemptStore, type OwnedPage, PageStore } from '../../lib/fan-out/page.repository.js';
import { eventually } from '../cluster/harness/eventually.js';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let pages: PageStore;
let attempts: PageAttemptStore;
let fanOuts: FanOutStore;

beforeAll(async () => {
  stores = await openStores();
  pages = new PageStore(stores.database, stores.partitions);
  attempts = new PageAttemptStore(stores.database);
  fanOuts = new FanOutStore(stores.database);
});
afterAll(() => stores.close());
beforeEach(() => stores.test.query('truncate job_runs, job_pages, job_schedule'));

const FIRE_TIME = secondsAgo(60);
const KEY = { jobName: 'job', fireTime: FIRE_TIME };
const DONE: RunEnd = { status: 'done', error: null, reason: null, retryInMs: null, releases: 0 };
const FAILED: RunEnd = {
  status: 'failed',
  error: { name: 'Error', message: 'no', stack: null },
  reason: null,
  retryInMs: 0,
  releases: 0,
};

async function claimRun(): Promise<OwnedRun> {
  await stores.claims.claimDue([aDue('job', FIRE_TIME)], 'A');
  return { ...KEY, attempt: 1, instanceId: 'A' } as OwnedRun;
}

async function fanOut(...ids: string[]): Promise<OwnedRun> {
  const run = await claimRun();
  await pages.add(
    run,
    ids.map((page) => ({ page, data: null })),
  );
  return run;
}

async function claim(page: string, ticket = 0, instanceId = 'W'): Promise<OwnedPage> {
  const claimed = await attempts.claim(pageTicket({ ...KEY, page }, ticket), instanceId);
  if (claimed.kind !== 'claimed') throw new Error(`${page}: ${claimed.kind}`);
  return claimed.page;
}

/** How many connections wait for a lock that another one holds. */
const waiting = async () =>
  (
    await stores.test.query(
      `select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`,
    )
  ).length;

const status = async () => (await stores.test.query<{ status: string }>('select status from job_runs'))[0]!.status;

describe('the last page', () => {
  it('ends the occurrence once, also when two end at the same moment', async () => {
    for (let round = 0; round < 20; round++) {
      await stores.test.query('truncate job_runs, job_pages');
      const run = await fanOut('a', 'b', 'c', 'd');
      await fanOuts.complete(run);
      const owned = await Promise.all(['a', 'b', 'c', 'd'].map((page) => claim(page)));
      const ends = await Promise.all(owned.map((page) => attempts.end(page, DONE)));
      expect(ends.filter((end) => end?.run !== null)).toHaveLength(1);
      expect(await status()).toBe('done');
    }
  });

  it('may be over before the tick is: then the tick’s end is the occurrence’s', async () => {
    const run = await fanOut('a');
    expect(await attempts.end(await claim('a'), DONE)).toEqual({ status: 'done', run: null });
    expect(await status()).toBe('running');
    expect(await fanOuts.complete(run)).toMatchObject({ status: 'done', pages: 1 });
  });

  it('and the tick’s end at the same moment leave no occurrence open', async () => {
    for (let round = 0; round < 20; round++) {
      await stores.test.query('truncate job_runs, job_pages');
      const run = await fanOut('a');
      const page = await claim('a');
      const [written, end] = await Promise.all([fanOuts.complete(run), attempts.end(page, DONE)]);
      expect(await status()).toBe('done');
      expect([written!.status === 'done', end!.run !== null].filter(Boolean)).toHaveLength(1);
    }
  });

  it('that is dead makes the occurrence dead, with what the first dead page failed with', async () => {
    await fanOuts.complete(await fanOut('a', 'b'));
    await attempts.end(await claim('b'), DONE);
    const end = await attempts.end(await claim('a'), { ...FAILED, status: 'dead', retryInMs: null });
    expect(end!.run).toMatchObject({
      status: 'dead',
      pages: 2,
      reason: 'pages dead: 1 of 2',
      error: { message: 'Dead pages: 1 of 2. The first is a: Error: no' },
    });
  });
});

describe('a page', () => {
  it('is added only while the run is ours', async () => {
    const run = await claimRun();
    await stores.test.query(`update job_runs set lease_until = now() - interval '1 second'`);
    expect(await pages.add(run, [{ page: 'a', data: null }])).toBeNull();
    expect(await stores.test.query('select from job_pages')).toEqual([]);
  });

  it('is ended by its newest attempt alone, and by that as often as the answer is lost', async () => {
    await fanOuts.complete(await fanOut('a', 'b'));
    const older = await claim('a');
    const newer = await claim('a');
    expect(newer.attempt).toBe(2);
    expect(await attempts.end(older, DONE)).toBeNull();
    expect(await attempts.end(newer, DONE)).toEqual({ status: 'done', run: null });
    expect(await attempts.end(newer, DONE)).toEqual({ status: 'done', run: null });
  });

  it('waits with a ticket of its own for its next attempt: an old one begins nothing', async () => {
    await fanOuts.complete(await fanOut('a'));
    await attempts.end(await claim('a'), FAILED);
    expect(await attempts.claim(pageTicket({ ...KEY, page: 'a' }, 0), 'W')).toEqual({ kind: 'over' });
    expect((await claim('a', 1)).attempt).toBe(2);
  });

  it('is not begun while a receipt of its last attempt is about to commit', async () => {
    await fanOuts.complete(await fanOut('a'));
    await claim('a');
    const committing = stores.database.coordination.createQueryRunner();
    await committing.startTransaction();
    await committing.query(`select from job_pages where page = 'a' for key share`);
    expect(await attempts.claim(pageTicket({ ...KEY, page: 'a' }, 0), 'V')).toEqual({ kind: 'held', seenAttempt: 1 });
    await committing.commitTransaction();
    await committing.release();
    expect((await claim('a')).attempt).toBe(2);
  });

  it('that another delivery is about to begin is not given back, but is that delivery’s, although the run waited before', async () => {
    await fanOuts.complete(await fanOut('a'));
    const set = (changes: string) => stores.test.query(`update job_runs set ${changes}`);
    await stores.test.query('alter table job_runs disable trigger user');
    await set(`status = 'queued', next_attempt_at = now()`);
    const other = new pg.Client({ connectionString: stores.test.url });
    await other.connect();
    try {
      await other.query(`begin; select from job_pages where page = 'a' for update`);
      const ticket = pageTicket({ ...KEY, page: 'a' }, 0);
      const first = attempts.claim(ticket, 'late');
      let isAnswered = false;
      void first.then(() => (isAnswered = true));
      await eventually('it is answered, or waits for the other one', async () => isAnswered || (await waiting()) > 0, {
        seen: waiting,
      });
      await set(`status = 'fanned_out', next_attempt_at = null`);
      await other.query(`select page_begin_1('job', $1, 'a', 0, 'W', null)`, [FIRE_TIME]);
      await other.query('commit');
      expect(await first).toEqual({ kind: 'held', seenAttempt: 0 });
      expect(await attempts.claim(ticket, 'late', 0)).toEqual({ kind: 'over' });
      expect(await attempts.end({ ...KEY, page: 'a', attempt: 1, instanceId: 'W' } as OwnedPage, DONE)).toMatchObject({
        status: 'done',
      });
    } finally {
      await other.end();
      await stores.test.query('alter table job_runs enable trigger user');
    }
  });

  it('that was given back while its worker was frozen is not that worker’s any more', async () => {
    await fanOuts.complete(await fanOut('a'));
    const frozen = await claim('a');
    await stores.test.query('alter table job_runs disable trigger user');
    await stores.test.query(`update job_runs set status = 'queued', next_attempt_at = now()`);
    await stores.test.query('alter table job_runs enable trigger user');
    expect(await attempts.claim(pageTicket({ ...KEY, page: 'a' }, 0), 'V')).toEqual({ kind: 'over' });
    expect(await stores.test.query('select status, ticket from job_pages')).toEqual([{ status: 'queued', ticket: 1 }]);
    expect(await attempts.end(frozen, DONE)).toBeNull();
  });

  it.each(['dead', 'cancelled'])('of a run that is %s is not begun', async (ended) => {
    await fanOut('a');
    await stores.test.query(`update job_runs set status = $1`, [ended]);
    expect(await attempts.claim(pageTicket({ ...KEY, page: 'a' }, 0), 'W')).toEqual({ kind: 'over' });
  });
});

describe('an occurrence that is to be cancelled', () => {
  it('ends when none of its pages is under way any more; what waits is cancelled at once', async () => {
    await fanOuts.complete(await fanOut('a', 'b', 'c'));
    const running = await claim('a');
    await stores.test.query(`update job_runs set cancel_requested_at = now(), cancel_reason = 'cancelled by ada'`);
    expect(await attempts.settle(KEY)).toBeNull();
    expect(await stores.test.query('select page, status, reason from job_pages order by page')).toEqual([
      { page: 'a', status: 'running', reason: null },
      { page: 'b', status: 'cancelled', reason: 'cancelled by ada' },
      { page: 'c', status: 'cancelled', reason: 'cancelled by ada' },
    ]);
    // Its handler failed before it heard of that: it is not begun again.
    const end = await attempts.end(running, FAILED);
    expect(end).toMatchObject({ status: 'cancelled', run: { status: 'cancelled', reason: 'cancelled by ada' } });
  });
});

describe('another occurrence of the job', () => {
  const LATER = secondsAgo(30);
  const claimLater = async (changes: object) =>
    (await stores.claims.claimDue([aDue('job', LATER, changes)], 'B')).answers[0]!;

  it.each([
    ['forbid', 'skipped'],
    ['queue', 'queued'],
    ['replace', 'queued'],
    ['allow', 'claimed'],
  ] as const)('with overlap %s is %s while the pages of an earlier one are under way', async (overlap, verdict) => {
    await fanOuts.complete(await fanOut('a'));
    await stores.test.query(`update job_runs set started_at = $1`, [FIRE_TIME]);
    expect(await claimLater({ overlap, parallel: 1 })).toMatchObject({ verdict });
    const [earlier] = await stores.test.query('select status, cancel_reason from job_runs where fire_time = $1', [
      FIRE_TIME,
    ]);
    expect(earlier).toEqual({
      status: 'fanned_out',
      cancel_reason: overlap === 'replace' ? 'replaced by a newer one' : null,
    });
  });

  it('waits for a place in the concurrency group in which the pages of an earlier one are under way', async () => {
    await fanOuts.complete(await fanOut('a'));
    await stores.test.query(`update job_runs set concurrency_group = 'reports'`);
    const group = { overlap: 'allow', parallel: null, group: 'reports', groupLimit: 1 };
    expect(await claimLater(group)).toMatchObject({ verdict: 'waiting' });
    await attempts.end(await claim('a'), DONE);
    expect(await claimLater(group)).toMatchObject({ verdict: 'claimed' });
  });
});

it('pages whose publication commits only after the tick has ended are the run’s all the same, or not there', async () => {
  const run = await claimRun();
  const slow = new pg.Client({ connectionString: stores.test.url });
  await slow.connect();
  try {
    await slow.query('begin');
    // Its answer was lost, and the handler went on.
    const published = await slow.query('select pages_publish_1($1, $2, 1, $3, $4, $5) as added', [
      'job',
      FIRE_TIME,
      'A',
      ['a'],
      [null],
    ]);
    expect(published.rows).toEqual([{ added: 1 }]);
    const ended = fanOuts.complete(run);
    await Promise.race([
      ended,
      eventually(
        'the end to wait',
        async () => (await stores.test.query('select from pg_locks where not granted')).length > 0,
      ),
    ]);
    await slow.query('commit');
    expect(await ended).toMatchObject({ status: 'fanned_out', pages: 1 });
  } finally {
    await slow.end();
  }
});
