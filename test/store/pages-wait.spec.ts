import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { pageTicket } from '../../lib/fan-out/page.js';
import type { OwnedRun } from '../../lib/options/run.js';
import { FlagStore, PauseStore } from '../../lib/operations/holds.service.js';
import { CancelStore } from '../../lib/operations/run-requests.service.js';
import { FanOutStore, PageStore, PageAttemptStore } from '../../lib/fan-out/page.repository.js';
import { PageKeepingStore } from '../../lib/fan-out/page-keeper.service.js';
import { PageLettersStore } from '../../lib/operations/dead-pages.service.js';
import { aDue } from '../support/due.js';
import type { RunEnd } from '../../lib/runs/outcome.js';
import { aJob } from '../support/job.js';
import { aRun } from '../support/run.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let pages: PageStore;
let attempts: PageAttemptStore;
let fanOuts: FanOutStore;
let keeping: PageKeepingStore;
let letters: PageLettersStore;
let pauses: PauseStore;
let flags: FlagStore;
let cancels: CancelStore;

beforeAll(async () => {
  stores = await openStores();
  const { database, partitions } = stores;
  await partitions.ensure([FIRE_TIME]);
  pages = new PageStore(database, partitions);
  attempts = new PageAttemptStore(database);
  fanOuts = new FanOutStore(database);
  keeping = new PageKeepingStore(database);
  letters = new PageLettersStore(database);
  pauses = new PauseStore(database);
  flags = new FlagStore(database);
  cancels = new CancelStore(database);
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query(
    'truncate job_runs, job_pages, job_schedule, job_instances, job_flags, job_actions, job_backfills',
  );
  await stores.schedules.declare([JOB], null);
  await stores.test.query(`update job_schedule set decided_until = '2000-01-01'`);
});

const OPS = { by: 'ops', reason: 'mended' };
const FIRE_TIME = secondsAgo(60);
const KEY = { jobName: 'job', fireTime: FIRE_TIME };
const JOB = aJob('job', '* * * * * *', { flag: 'exports' });
const KNOWN = { name: 'job', maxAttempts: 3, overlap: 'forbid' as const, flag: 'exports' };
const DONE: RunEnd = { status: 'done', error: null, reason: null, retryInMs: null, releases: 0 };
const DEAD: RunEnd = {
  status: 'dead',
  error: { name: 'Error', message: 'no', stack: null },
  reason: null,
  retryInMs: null,
  releases: 0,
};

/** An occurrence with two pages, `a` and `b`, that the queue has. */
async function publish(): Promise<OwnedRun> {
  const run = { ...KEY, attempt: 1, instanceId: 'A' } as OwnedRun;
  await stores.claims.claimDue([aDue('job', FIRE_TIME)], 'A');
  await pages.add(
    run,
    ['a', 'b'].map((page) => ({ page, data: null })),
  );
  await pages.handedOver(await pages.toHandOver(run, ['a', 'b']));
  // Published so long ago that they are not left to their tick.
  await stores.test.query(`update job_pages set created_at = now() - interval '1 minute'`);
  return run;
}

async function ticketOf(page: string) {
  const [row] = await stores.test.query<{ ticket: number }>('select ticket from job_pages where page = $1', [page]);
  return pageTicket({ ...KEY, page }, row!.ticket);
}

/** A worker gets the ticket that is the page's by now. */
const deliver = async (page: string) => attempts.claim(await ticketOf(page), 'W');

async function endPage(page: string, ending: RunEnd): Promise<void> {
  const claim = await deliver(page);
  if (claim.kind !== 'claimed') throw new Error(`${page}: ${claim.kind}`);
  await attempts.end(claim.page, ending);
}

async function diedOfPages(): Promise<void> {
  await fanOuts.complete(await publish());
  await endPage('a', DONE);
  await endPage('b', DEAD);
}

async function cancelledWithPages(): Promise<void> {
  await fanOuts.complete(await publish());
  await endPage('a', DONE);
  await cancels.cancel(KEY, OPS);
  await attempts.settle(KEY);
}

const run = async () =>
  (
    await stores.test.query<{ status: string; pages: number | null; attempt: number }>(
      'select status, pages, attempt from job_runs where fire_time = $1',
      [FIRE_TIME],
    )
  )[0]!;
const statuses = async () =>
  (await stores.test.query<{ page: string; status: string }>('select page, status from job_pages order by page')).map(
    ({ page, status }) => `${page} ${status}`,
  );
const handedOver = async () => (await keeping.outlook(['job'], 100)).toHandOver.map(({ page }) => page).sort();
async function start() {
  const waiting = await stores.reaper.waiting([KNOWN], 10);
  return (
    await stores.claims.claimWaiting(
      waiting.map((one) => ({ ...one, overlap: 'forbid' as const, leaseMs: 60_000, flag: 'exports' })),
      'B',
    )
  ).answers;
}

async function backfill(): Promise<string> {
  const id = await stores.backfills.create({
    jobName: 'job',
    from: FIRE_TIME,
    to: FIRE_TIME,
    maxConcurrent: 1,
    beside: false,
    replay: true,
    total: 1,
    requestedBy: 'ops',
    reason: null,
  });
  await stores.feeds.feed(id, JOB);
  return id;
}

const WAYS = {
  'backfill that replays': backfill,
  replay: () => stores.deadLetters.replay(KEY, ['dead'], OPS),
  replayAll: () =>
    stores.deadLettersInBulk.replayAll(
      { status: 'dead', jobName: 'job', from: null, to: null, errorContains: null },
      10,
      OPS,
      {},
    ),
  replayPages: () => letters.replay(KEY, ['b'], OPS),
} as const;

const HOLDS = {
  paused: [() => pauses.pause('job', null, OPS), () => pauses.resume('job', OPS)],
  disabled: [() => pauses.setEnabled('job', false, OPS), () => pauses.setEnabled('job', true, OPS)],
  'flagged off': [() => flags.set('exports', false, OPS), () => flags.set('exports', true, OPS)],
  'busy with another run that it forbids to overlap': [
    () => stores.claims.claimDue([aDue('job', secondsAgo(5))], 'C'),
    () => stores.runs.complete(aRun({ fireTime: secondsAgo(5), instanceId: 'C' })),
  ],
} as const;

const PAIRS = Object.keys(WAYS).flatMap((way) =>
  Object.keys(HOLDS).map((hold): [keyof typeof WAYS, keyof typeof HOLDS] => [
    way as keyof typeof WAYS,
    hold as keyof typeof HOLDS,
  ]),
);

describe('a run that died of its pages', () => {
  it.each(PAIRS)(
    'waits as any other after a %s while its job is %s, and so do its pages; then they begin without its tick',
    async (way, hold) => {
      await diedOfPages();
      const [begin, end] = HOLDS[hold];
      await begin();
      await WAYS[way]();
      expect(await run()).toMatchObject({ status: 'queued', pages: 2 });
      expect(await statuses()).toEqual(['a done', 'b queued']);
      expect(await start()).toEqual([]);
      expect(await handedOver()).toEqual([]);
      expect(await deliver('b')).toEqual({ kind: 'over' });

      await end();
      expect(await start()).toMatchObject([{ verdict: 'fanned_out', attempt: 2, pages: 2 }]);
      expect(await run()).toEqual({ status: 'fanned_out', pages: 2, attempt: 2 });
      expect(await handedOver()).toEqual(['b']);
      await endPage('b', DONE);
      expect(await run()).toMatchObject({ status: 'done' });
    },
  );

  it('counts as under way as soon as it is started again: nothing begins beside it', async () => {
    await diedOfPages();
    await WAYS.replay();
    await start();
    expect((await stores.claims.claimDue([aDue('job', secondsAgo(5))], 'C')).answers).not.toMatchObject([
      { verdict: 'claimed' },
    ]);
  });

  it('may be cancelled while it waits, and its pages do not begin', async () => {
    await diedOfPages();
    await WAYS.replayPages();
    expect(await cancels.cancel(KEY, OPS)).toBe('cancelled');
    expect(await start()).toEqual([]);
    expect(await deliver('b')).toEqual({ kind: 'over' });
  });

  it('has its pages counted as before when the backfill that queued it is cancelled', async () => {
    await diedOfPages();
    const id = await backfill();
    await stores.cancels.cancel(id, 'job', 'ops', null);
    expect(await run()).toMatchObject({ status: 'dead', pages: 2 });
    expect(await deliver('b')).toEqual({ kind: 'over' });
  });

  it('gets more of its pages while it waits, one verb after the other', async () => {
    await fanOuts.complete(await publish());
    await endPage('a', DEAD);
    await endPage('b', DEAD);
    expect([
      await letters.replay(KEY, ['a'], OPS),
      await letters.replay(KEY, ['a'], OPS),
      await letters.replay(KEY, ['b'], OPS),
    ]).toEqual([1, 0, 1]);
    await start();
    expect(await handedOver()).toEqual(['a', 'b']);
  });
});

describe('a run that was cancelled with its pages', () => {
  it.each(Object.keys(HOLDS) as (keyof typeof HOLDS)[])(
    'waits with them after a replay while its job is %s; then its tick is called',
    async (hold) => {
      await cancelledWithPages();
      const [begin, end] = HOLDS[hold];
      await begin();
      await stores.deadLetters.replay(KEY, ['cancelled'], OPS);
      expect(await statuses()).toEqual(['a done', 'b queued']);
      expect([await start(), await handedOver(), await deliver('b')]).toEqual([[], [], { kind: 'over' }]);
      await end();
      expect(await start()).toMatchObject([{ verdict: 'claimed', attempt: 2 }]);
      expect(await handedOver()).toEqual(['b']);
    },
  );
});

describe('a run whose tick failed after it had published', () => {
  it.each([0, 60_000])(
    'has its pages wait for the next attempt, in %i ms, and gives them back that are delivered meanwhile',
    async (retryInMs) => {
      const owned = await publish();
      await stores.runs.end(owned, { status: 'failed', reason: null, error: null, retryInMs, releases: 0 });
      const ticket = await ticketOf('a');
      expect(await attempts.claim(ticket, 'W')).toEqual({ kind: 'over' });
      await stores.test.query('update job_runs set next_attempt_at = now()');
      expect(await handedOver()).toEqual([]);
      expect(await start()).toMatchObject([{ verdict: 'claimed', attempt: 2 }]);
      // Not the one that the queue has still.
      expect(await handedOver()).toEqual(['a']);
      expect(await attempts.claim(ticket, 'W')).toEqual({ kind: 'over' });
      expect(await deliver('a')).toMatchObject({ kind: 'claimed' });
      expect(await deliver('b')).toMatchObject({ kind: 'claimed' });
    },
  );

  it('lets a page go on that is under way; one whose worker is gone waits, and its attempt counts', async () => {
    const owned = await publish();
    await deliver('a');
    const going = await deliver('b');
    await stores.runs.end(owned, { status: 'failed', reason: null, error: null, retryInMs: 0, releases: 0 });
    expect(await deliver('a')).toEqual({ kind: 'over' });
    expect(await statuses()).toEqual(['a queued', 'b running']);
    expect(await attempts.end((going as { page: Parameters<typeof attempts.end>[0] }).page, DONE)).toMatchObject({
      status: 'done',
    });
    await start();
    expect(await deliver('a')).toMatchObject({ kind: 'claimed', page: { attempt: 2 } });
  });

  it('begins no page once its lease is over, before anybody has reaped it', async () => {
    await publish();
    await stores.test.query(`update job_runs set lease_until = now() - interval '1 second'`);
    expect([await handedOver(), await deliver('a')]).toEqual([[], { kind: 'over' }]);
  });
});

describe('an occurrence that is fanned out', () => {
  it('goes on while its job is paused, as what runs does', async () => {
    await fanOuts.complete(await publish());
    await pauses.pause('job', null, OPS);
    expect(await deliver('a')).toMatchObject({ kind: 'claimed' });
  });
});
