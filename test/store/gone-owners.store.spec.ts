import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import type { GoneRun } from '../../lib/runs/reaping.repository.js';
import { announceLifeline, holdLifeline } from '../../lib/runs/heartbeat/liveness-lock.js';
import { ReapingRepository } from '../../lib/runs/reaping.repository.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

const PATIENCE_MS = 10_000;
const JOB = { name: 'job', maxAttempts: 3, overlap: 'forbid' as const };

let stores: Stores;
let store: ReapingRepository;
let sessions: pg.Client[];

beforeAll(async () => {
  stores = await openStores();
  store = new ReapingRepository(stores.database);
});
afterAll(() => stores.close());
beforeEach(async () => {
  sessions = [];
  await stores.test.query('delete from job_runs');
  await stores.test.query('delete from job_instances');
  await stores.test.query(
    `insert into job_instances (id, jobs, handlers, alive_until) values ('A', '{}', '[]', now()), ('B', '{}', '[]', now())`,
  );
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, started_at, lease_until)
     values ('job', $1, 'running', 'schedule', 'A', 1, now(), now() + interval '2 minutes')`,
    [secondsAgo(10)],
  );
});
afterEach(() => Promise.all(sessions.map((session) => session.end())));

/** Instance A connects, takes a lifeline and says so. */
async function connect(): Promise<{ session: pg.Client; key: string }> {
  const session = new pg.Client({ connectionString: stores.test.url });
  await session.connect();
  sessions.push(session);
  const key = await holdLifeline(session, PATIENCE_MS);
  await announceLifeline(session, stores.database.tables, 'A', key, PATIENCE_MS);
  return { session, key };
}

async function disconnect({ session, key }: { session: pg.Client; key: string }): Promise<void> {
  sessions = sessions.filter((one) => one !== session);
  await session.end();
  // The server hears of it a moment later.
  for (;;) {
    const [look] = await stores.test.query<{ free: boolean }>(
      'select pg_try_advisory_xact_lock_shared($1::bigint) as free',
      [key],
    );
    if (look!.free) return;
  }
}

const goneRun = (lifeline: string, changes: Partial<GoneRun> = {}): GoneRun => ({
  jobName: 'job',
  fireTime: secondsAgo(10),
  attempt: 1,
  instanceId: 'A',
  lifeline,
  ...changes,
});
const row = async () =>
  (
    await stores.test.query<{ lease_until: Date; reason: string | null; status: string }>(
      'select lease_until, reason, status from job_runs',
    )
  )[0]!;

describe('a look at the others', () => {
  it('tries no lock of instances that have been dead for long, though their rows stay for a day', async () => {
    const session = new pg.Client({ connectionString: stores.test.url });
    await session.connect();
    sessions.push(session);
    await stores.test.query(`update job_instances set lifeline = 7 where id = 'A'`);
    await stores.test.query(
      `insert into job_instances (id, jobs, handlers, alive_until, lifeline) select 'dead ' || n, '{}', '[]', now() - interval '1 hour', 100 + n from generate_series(1, 50) n`,
    );
    await session.query('begin');
    await session.query(`select * from others_gone_1('B', 10)`);
    const { rows } = await session.query(
      `select count(*)::integer as tried from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`,
    );
    expect(rows).toEqual([{ tried: 1 }]);
    await session.query('rollback');
    await session.query('begin');
    await session.query(`select * from job_run_take_over_1('{job}', $1, '{1}', '{A}', '{7}')`, [[secondsAgo(10)]]);
    expect(
      (
        await session.query(
          `select count(*)::integer as tried from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`,
        )
      ).rows,
    ).toEqual([{ tried: 1 }]);
    await session.query('rollback');
  });

  it('finds nobody gone while the liveness lock is held, and the run of whoever has let go', async () => {
    const lifeline = await connect();
    expect(await store.ownersGone('B')).toEqual({ run: true, gone: [] });
    await disconnect(lifeline);
    expect(await store.ownersGone('B')).toEqual({ run: true, gone: [goneRun(lifeline.key)] });
  });

  it('finds nothing of its own, nor of an instance that has said nothing, nor of one whose row is gone', async () => {
    expect(await store.ownersGone('B')).toEqual({ run: true, gone: [] });
    expect(await store.ownersGone('A')).toEqual({ run: false, gone: [] });
    const lifeline = await connect();
    await disconnect(lifeline);
    expect(await store.ownersGone('A')).toEqual({ run: false, gone: [] });
    await stores.test.query(`delete from job_instances where id = 'A'`);
    expect(await store.ownersGone('B')).toEqual({ run: true, gone: [] });
  });

  it('leaves those that nobody has heard of for long to their leases: their rows add up', async () => {
    const lifeline = await connect();
    await disconnect(lifeline);
    await stores.test.query(`update job_instances set alive_until = now() - interval '9 minutes'`);
    expect((await store.ownersGone('B')).gone).toHaveLength(1);
    await stores.test.query(`update job_instances set alive_until = now() - interval '11 minutes'`);
    expect((await store.ownersGone('B')).gone).toEqual([]);
  });

  it('leaves runs that have ended, and those whose lease is over, to the reaper', async () => {
    await disconnect(await connect());
    await stores.test.query(`update job_runs set lease_until = now() - interval '1 second'`);
    expect(await store.ownersGone('B')).toEqual({ run: true, gone: [] });
    await stores.test.query(`update job_runs set status = 'done', finished_at = now()`);
    expect(await store.ownersGone('B')).toEqual({ run: false, gone: [] });
  });

  it('keeps nobody’s lock', async () => {
    const lifeline = await connect();
    await disconnect(lifeline);
    await store.ownersGone('B');
    expect(
      await stores.test.query(
        `select from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`,
      ),
    ).toEqual([]);
  });
});

describe('a take-over', () => {
  it('ends the lease, and the reaper says why in the row', async () => {
    const lifeline = await connect();
    await disconnect(lifeline);
    const { gone } = await store.ownersGone('B');
    expect(await store.takeOver(gone)).toEqual([
      { jobName: 'job', fireTime: secondsAgo(10), attempt: 1, claimedBy: 'A' },
    ]);
    expect(await stores.reaper.reap([JOB], 10)).toMatchObject([
      { status: 'orphaned', attempt: 1, claimedBy: 'A', reason: 'the liveness lock of A was gone' },
    ]);
    const [after] = await stores.test.query('select error from job_runs');
    expect(after).toMatchObject({
      error: {
        name: 'LeaseExpired',
        message: 'The liveness lock of A was gone: its process died, stood still, or lost the database.',
      },
    });
  });

  it('does nothing to whoever has come back meanwhile, with another lifeline', async () => {
    const former = await connect();
    await disconnect(former);
    const { gone } = await store.ownersGone('B');
    await connect();
    const before = await row();
    expect(await store.takeOver(gone)).toEqual([]);
    expect(await row()).toEqual(before);
  });

  it('does nothing to whoever had come back meanwhile, and is gone again: that is another time to wait', async () => {
    const former = await connect();
    await disconnect(former);
    const { gone } = await store.ownersGone('B');
    await disconnect(await connect());
    const before = await row();
    expect(await store.takeOver(gone)).toEqual([]);
    expect(await row()).toEqual(before);
  });

  it('does nothing to whoever holds the lifeline, or is judged by leases from now on', async () => {
    const { session, key } = await connect();
    expect(await store.takeOver([goneRun(key)])).toEqual([]);
    await announceLifeline(session, stores.database.tables, 'A', null, PATIENCE_MS);
    await disconnect({ session, key });
    expect(await store.takeOver([goneRun(key)])).toEqual([]);
  });

  it('does nothing to another attempt, nor to another owner, nor to a run that has ended', async () => {
    const lifeline = await connect();
    await disconnect(lifeline);
    expect(await store.takeOver([goneRun(lifeline.key, { attempt: 2 })])).toEqual([]);
    await stores.test.query(`update job_runs set claimed_by = 'B'`);
    expect(await store.takeOver([goneRun(lifeline.key)])).toEqual([]);
    await stores.test.query(`update job_runs set claimed_by = 'A', status = 'done', finished_at = now()`);
    expect(await store.takeOver([goneRun(lifeline.key)])).toEqual([]);
    expect(await row()).toMatchObject({ status: 'done', reason: null });
  });

  it('passes over a run whose end is being written, which wins', async () => {
    const lifeline = await connect();
    await disconnect(lifeline);
    const owner = new pg.Client({ connectionString: stores.test.url });
    await owner.connect();
    sessions.push(owner);
    await owner.query('begin');
    await owner.query(`update job_runs set status = 'done', finished_at = now()`);
    expect(await store.takeOver([goneRun(lifeline.key)])).toEqual([]);
    await owner.query('commit');
    expect(await row()).toMatchObject({ status: 'done', reason: null });
  });

  it('of two that take over one does, and the next claim has a row without the reason', async () => {
    const lifeline = await connect();
    await disconnect(lifeline);
    const taken = await Promise.all([store.takeOver([goneRun(lifeline.key)]), store.takeOver([goneRun(lifeline.key)])]);
    expect(taken.flat()).toHaveLength(1);
    await stores.reaper.reap([JOB], 10);
    const waiting = await stores.reaper.waiting([JOB], 10);
    await stores.claims.claimWaiting(
      waiting.map((run) => ({ ...run, overlap: 'forbid' as const, leaseMs: 60_000 })),
      'B',
    );
    expect(await row()).toMatchObject({ status: 'running', reason: null });
  });
});

it('an attempt whose owner was taken for gone counts: its process may have died of it', async () => {
  const lifeline = await connect();
  await disconnect(lifeline);
  await store.takeOver([goneRun(lifeline.key)]);
  expect(await stores.reaper.reap([{ ...JOB, maxAttempts: 1 }], 10)).toMatchObject([{ status: 'dead' }]);
});

describe('what an instance gives up itself', () => {
  const key = { jobName: 'job', fireTime: secondsAgo(10), attempt: 1 };

  it('has no lease any more, and says why', async () => {
    expect(await store.giveUp([key], 'A')).toEqual([{ ...key, claimedBy: 'A' }]);
    expect(await stores.reaper.reap([JOB], 10)).toMatchObject([{ reason: 'the liveness lock of A was gone' }]);
  });

  it('does not count as an attempt: the database was away, and the run is as good as before', async () => {
    await store.giveUp([key], 'A');
    expect(await stores.reaper.reap([{ ...JOB, maxAttempts: 1 }], 10)).toMatchObject([{ status: 'orphaned' }]);
  });

  it('is nothing of another attempt or instance', async () => {
    expect(await store.giveUp([{ ...key, attempt: 2 }], 'A')).toEqual([]);
    expect(await store.giveUp([key], 'B')).toEqual([]);
    expect((await row()).reason).toBeNull();
  });
});
