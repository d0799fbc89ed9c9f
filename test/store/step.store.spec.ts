import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import type { OwnedRun } from '../../lib/options/run.js';
import type { ClaimAnswer } from '../../lib/runs/claim.js';
import { aDue } from '../support/due.js';
import { aRun } from '../support/run.js';
import { fenceOf } from '../../lib/runs/job-run.repository.js';
import { callAlone } from '../../lib/database/transactions.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let jobs = 0;

beforeAll(async () => void (stores = await openStores()));
afterAll(() => stores.close());

const ownedOf = ({ jobName, fireTime, attempt, leaseUntil }: ClaimAnswer): OwnedRun =>
  aRun({ jobName, fireTime, attempt: attempt!, leaseUntil: leaseUntil! });
const row = async ({ jobName }: OwnedRun) =>
  (await stores.test.query<Record<string, unknown>>('select * from job_runs where job_name = $1', [jobName]))[0]!;

async function owned(leaseMs = 60_000): Promise<OwnedRun> {
  const { answers } = await stores.claims.claimDue([aDue(`job-${++jobs}`, secondsAgo(1), { leaseMs })], 'A');
  return ownedOf(answers[0]!);
}

/** Ends the attempt so that another may begin, and has it begin. */
async function nextAttempt(run: OwnedRun): Promise<ClaimAnswer> {
  await stores.runs.end(run, { status: 'failed', reason: null, error: null, retryInMs: 0, releases: 0 });
  const { answers } = await stores.claims.claimWaiting([{ ...run, overlap: 'forbid', leaseMs: 60_000 }], 'A');
  return answers[0]!;
}

/** A session that holds the run's row until it is let go. */
async function holding(run: OwnedRun, change: string): Promise<{ end: (how: 'commit' | 'rollback') => Promise<void> }> {
  const client = new pg.Client({ connectionString: stores.test.url });
  await client.connect();
  await client.query('begin');
  await client.query(`update job_runs set ${change} where job_name = $1`, [run.jobName]);
  return {
    end: async (how) => {
      await client.query(how);
      await client.end();
    },
  };
}

async function somebodyWaits(): Promise<void> {
  const waiting = () =>
    stores.test.query(`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`);
  while ((await waiting()).length === 0) await pause(20);
}

describe('a saved checkpoint', () => {
  it.each<[unknown]>([[null], [{ page: 7, done: ['a', 'ü'] }], [0], ['x'.repeat(2_000)]])(
    'comes along with the claim of the next attempt: %#',
    async (value) => {
      const run = await owned();
      expect(await stores.steps.checkpointOf(run)).toBeNull();
      await stores.steps.keepCheckpoint(run, JSON.stringify(value));
      expect(await stores.steps.checkpointOf(run)).toEqual({ value });
      expect((await nextAttempt(run)).checkpoint).toEqual({ value });
    },
  );

  it.each<[string, (run: OwnedRun) => Promise<unknown>]>([
    [
      'handed back by a stopping instance',
      (run) => stores.runs.end(run, { status: 'queued', reason: 'released', error: null, retryInMs: 0, releases: 1 }),
    ],
    [
      'taken by the reaper',
      async (run) => {
        await stores.test.query('update job_runs set lease_until = clock_timestamp() where job_name = $1', [
          run.jobName,
        ]);
        await stores.reaper.reap([{ name: run.jobName, maxAttempts: 3, overlap: 'forbid' }], 10);
      },
    ],
  ])('outlasts an attempt that is %s', async (_how, end) => {
    const run = await owned();
    await stores.steps.keepCheckpoint(run, '{"page":7}');
    await end(run);
    const { answers } = await stores.claims.claimWaiting([{ ...run, overlap: 'forbid', leaseMs: 60_000 }], 'B');
    expect(answers[0]).toMatchObject({ attempt: 2, checkpoint: { value: { page: 7 } } });
  });

  it('is said not to be there: a new occurrence has none, nor has one that was cleared', async () => {
    const { answers } = await stores.claims.claimDue([aDue(`job-${++jobs}`, secondsAgo(1))], 'A');
    expect(answers[0]!.checkpoint).toBeNull();
    const run = ownedOf(answers[0]!);
    await stores.steps.keepCheckpoint(run, '1');
    await stores.steps.keepCheckpoint(run, null);
    expect((await nextAttempt(run)).checkpoint).toBeNull();
  });

  it('stays where it is when it is large, and can be read', async () => {
    const run = await owned();
    const value = Array.from({ length: 20_000 }, (_, index) => `${index * 7919}`);
    await stores.steps.keepCheckpoint(run, JSON.stringify(value));
    const next = await nextAttempt(run);
    expect(next.checkpoint).toBeUndefined();
    expect(await stores.steps.checkpointOf(ownedOf(next))).toEqual({ value });
  });

  it('changes nothing else of the run, its lease least of all', async () => {
    const run = await owned();
    const before = await row(run);
    await stores.steps.keepCheckpoint(run, '{"page":7}');
    expect(await row(run)).toEqual({ ...before, checkpoint: { page: 7 } });
  });

  it('is written in place: no index has to know of it', async () => {
    const run = await owned();
    const dataSource = await stores.database.receipts();
    const updates = await dataSource.transaction(async (manager) => {
      for (let page = 0; page < 5; page++)
        await manager.query('select run_checkpoint_1($1, $2, $3, $4, $5)', [...fenceOf(run), `{"page":${page}}`]);
      const [counts] = (await manager.query(
        `select sum(pg_stat_get_xact_tuples_updated(oid))::int as updated, sum(pg_stat_get_xact_tuples_hot_updated(oid))::int as hot
         from   pg_class
         where  relname like 'job_runs%'`,
      )) as { updated: number; hot: number }[];
      return counts;
    });
    expect(updates).toEqual({ updated: 5, hot: 5 });
  });
});

describe('what may still be under way, after its answer was lost', () => {
  it.each<['commit' | 'rollback', unknown]>([
    ['commit', { value: 2 }],
    ['rollback', { value: 1 }],
  ])('is waited for by who reads the checkpoint: %s', async (how, found) => {
    const run = await owned();
    await stores.steps.keepCheckpoint(run, '1');
    const other = await holding(run, `checkpoint = '2'`);
    const loading = stores.steps.checkpointOf(run);
    await somebodyWaits();
    await other.end(how);
    expect(await loading).toEqual(found);
  });

  it.each<['commit' | 'rollback', boolean]>([
    ['commit', true],
    ['rollback', false],
  ])('is waited for by who asks whether the run is done: %s', async (how, done) => {
    const run = await owned();
    const other = await holding(run, `status = 'done', finished_at = now()`);
    const asking = stores.steps.isCompleted(run);
    await somebodyWaits();
    await other.end(how);
    expect(await asking).toBe(done);
  });

  it('is not taken for ours when another attempt has done it', async () => {
    const run = await owned();
    await stores.test.query(`update job_runs set status = 'done', attempt = 2 where job_name = $1`, [run.jobName]);
    expect(await stores.steps.isCompleted(run)).toBe(false);
  });
});

describe('the transaction of a run', () => {
  it('that was frozen before its commit is ended by whoever takes the run over', async () => {
    const run = await owned(1_500);
    const queryRunner = (await stores.database.receipts()).createQueryRunner();
    await queryRunner.startTransaction();
    expect(stores.steps.isStepBegun(await callAlone(queryRunner.manager, stores.steps.beginStep(run)))).toBe(true);
    await callAlone(queryRunner.manager, stores.steps.endStep(run, null, true));

    const job = { name: run.jobName, maxAttempts: 3, overlap: 'forbid' as const };
    while ((await stores.reaper.reap([job], 10)).length === 0) await pause(20);
    expect(await row(run)).toMatchObject({ status: 'orphaned' });
    await expect(queryRunner.commitTransaction()).rejects.toThrow();
    await queryRunner.release().catch(() => undefined);
    expect(await row(run)).toMatchObject({ status: 'orphaned' });
  });

  it('held to its end keeps the reaper away, and lets heartbeats pass', async () => {
    const run = await owned();
    const dataSource = await stores.database.receipts();
    await dataSource.transaction(async (manager) => {
      await callAlone(manager, stores.steps.endStep(run, null, false));
      await stores.test.query(`update job_runs set lease_until = clock_timestamp() where job_name = $1`, [run.jobName]);
      expect(await stores.reaper.reap([{ name: run.jobName, maxAttempts: 3, overlap: 'forbid' }], 10)).toEqual([]);
    });
    expect(await stores.reaper.reap([{ name: run.jobName, maxAttempts: 3, overlap: 'forbid' }], 10)).toHaveLength(1);
  });
});
