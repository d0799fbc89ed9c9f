import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import type { EntityManager } from 'typeorm';
import type { OwnedRun } from '../../lib/options/run.js';
import type { EndAnswer } from '../../lib/runs/job-run.repository.js';
import { DONE, type RunEnd } from '../../lib/runs/outcome.js';
import { renewLeases } from '../../lib/runs/heartbeat/lease-keeper.js';
import { aDue } from '../support/due.js';
import { callAlone } from '../../lib/database/transactions.js';
import { isRefusedClose } from '../../lib/database/sql-state.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let heartbeat: pg.Client;
let jobs = 0;

beforeAll(async () => {
  stores = await openStores();
  heartbeat = new pg.Client({ connectionString: stores.test.url });
  await heartbeat.connect();
});
afterAll(async () => {
  await heartbeat.end();
  await stores.close();
});

/** Claims an occurrence of a new job for instance A. */
async function owned(): Promise<OwnedRun> {
  const jobName = `job-${++jobs}`;
  const fireTime = secondsAgo(1);
  const { answers } = await stores.claims.claimDue([aDue(jobName, fireTime)], 'A');
  const { attempt, releases, leaseUntil, trigger } = answers[0]!;
  return {
    jobName,
    fireTime,
    attempt: attempt!,
    releases: releases!,
    trigger: trigger!,
    beside: false,
    instanceId: 'A',
    leaseMs: 60_000,
    leaseUntil: leaseUntil!,
    leaseDeadline: 0,
  };
}

const row = async ({ jobName }: OwnedRun) =>
  (await stores.test.query<Record<string, unknown>>('select * from job_runs where job_name = $1', [jobName]))[0]!;
const change = (run: OwnedRun, set: string) =>
  stores.test.query(`update job_runs set ${set} where job_name = $1`, [run.jobName]);

const FAILED: RunEnd = {
  status: 'failed',
  reason: null,
  error: { name: 'Error', message: 'no', stack: null },
  retryInMs: 60_000,
  releases: 0,
};

/** With another run's end, which is always accepted. */
async function inAGroup(run: OwnedRun, end: RunEnd): Promise<EndAnswer> {
  const other = await owned();
  const [accepted, answer] = await stores.runs.endAll([
    { run: other, end: DONE },
    { run, end },
  ]);
  expect(accepted).toEqual({ kind: 'written', end: { status: 'done', reason: null } });
  return answer!;
}

const inTransaction = async <Result>(work: (manager: EntityManager) => Promise<Result>) =>
  (await stores.database.receipts()).transaction(work);
const ended = (run: OwnedRun, json: string | null, complete: boolean) =>
  inTransaction((manager) => callAlone(manager, stores.steps.endStep(run, json, complete))).then(
    () => true,
    (error: unknown) => (isRefusedClose(error) ? false : Promise.reject(error)),
  );

/** Everything a process may write about its run, and how it learns whether it was accepted. */
const WRITES: [string, (run: OwnedRun) => Promise<boolean>][] = [
  ['completion', async (run) => (await stores.runs.complete(run)) !== null],
  ['failure', async (run) => (await stores.runs.end(run, FAILED)) !== null],
  ['completion in a group', async (run) => (await inAGroup(run, DONE)).kind === 'written'],
  ['failure in a group', async (run) => (await inAGroup(run, FAILED)).kind === 'written'],
  [
    'heartbeat',
    async (run) =>
      (
        await renewLeases(
          heartbeat,
          stores.database.tables,
          [{ ...run, id: 'x', fireTime: run.fireTime.toISOString() }],
          5_000,
        )
      ).get('x')!.kind === 'renewed',
  ],
  ['checkpoint', (run) => stores.steps.keepCheckpoint(run, '{"page":1}')],
  ['end of its checkpoint', (run) => stores.steps.keepCheckpoint(run, null)],
  ['look at its checkpoint', async (run) => (await stores.steps.checkpointOf(run)) !== undefined],
  [
    'transaction',
    async (run) =>
      stores.steps.isStepBegun(await inTransaction((manager) => callAlone(manager, stores.steps.beginStep(run)))),
  ],
  ['end of a transaction', (run) => ended(run, null, false)],
  ['checkpoint in a transaction', (run) => ended(run, '1', false)],
  ['completion in a transaction', (run) => ended(run, '1', true)],
  [
    'receipt',
    async (run) => {
      const dataSource = await stores.database.receipts();
      const answer = await dataSource.transaction((manager) =>
        stores.receipts.open(manager, run, { entity: 'e', effect: 'default' }, 'key'),
      );
      return answer.kind === 'opened';
    },
  ],
  [
    'end of a receipt',
    async (run) =>
      (await stores.database.receipts()).transaction((manager) =>
        stores.receipts.close(manager, run, { entity: 'e', effect: 'default' }, null),
      ),
  ],
];

/** What happens to a run while its process is frozen. */
const CHANGES: [string, string][] = [
  ['its lease has run out', `lease_until = now() - interval '1 millisecond'`],
  ['it was reaped', `status = 'orphaned', next_attempt_at = now()`],
  ['another attempt runs', `attempt = attempt + 1, claimed_by = 'B'`],
  ['another attempt of the same instance runs', 'attempt = attempt + 1'],
  ['another instance has it', `claimed_by = 'B'`],
  ['it is done', `status = 'done'`],
  ['it is dead', `status = 'dead'`],
];

describe('G3 the fence', () => {
  it.each(WRITES)('lets the owner’s %s through', async (_name, write) => {
    expect(await write(await owned())).toBe(true);
  });

  describe.each(WRITES)('refuses a %s', (_name, write) => {
    it.each(CHANGES)('when %s, and changes nothing', async (_what, set) => {
      const run = await owned();
      await change(run, set);
      const before = await row(run);
      expect(await write(run)).toBe(false);
      expect(await row(run)).toEqual(before);
      expect(await stores.test.query('select from receipts where job_name = $1', [run.jobName])).toEqual([]);
    });
  });

  it('a heartbeat renews all leases of an instance in one statement, and only those that are still its own', async () => {
    const runs = [await owned(), await owned(), await owned()];
    await change(runs[1]!, 'attempt = 2');
    const leases = runs.map((run, index) => ({
      ...run,
      id: String(index),
      fireTime: run.fireTime.toISOString(),
      leaseMs: 500_000,
    }));
    const renewed = await renewLeases(heartbeat, stores.database.tables, leases, 5_000);
    expect([...renewed.values()].map(({ kind }) => kind)).toEqual(['renewed', 'lost', 'renewed']);
    expect(renewed.get('0')).toEqual({
      kind: 'renewed',
      leaseUntil: ((await row(runs[0]!))['lease_until'] as Date).getTime(),
    });
    expect(((await row(runs[0]!))['lease_until'] as Date).getTime()).toBeGreaterThan(runs[0]!.leaseUntil.getTime());
  });

  it('a row that somebody holds does not keep a heartbeat from renewing the others', async () => {
    const [held, free] = [await owned(), await owned()];
    const holder = new pg.Client({ connectionString: stores.test.url });
    await holder.connect();
    await holder.query('begin');
    await holder.query('select from job_runs where job_name = $1 for update', [held.jobName]);
    const leases = [held, free].map((run, index) => ({
      ...run,
      id: String(index),
      fireTime: run.fireTime.toISOString(),
    }));
    const kinds = async () =>
      [...(await renewLeases(heartbeat, stores.database.tables, leases, 5_000)).values()].map(({ kind }) => kind);
    expect(await kinds()).toEqual(['held', 'renewed']);
    await holder.query('rollback');
    await holder.end();
    expect(await kinds()).toEqual(['renewed', 'renewed']);
  });

  it('a row that somebody holds does not keep the ends of others from being written', async () => {
    const [held, free] = [await owned(), await owned()];
    const holder = new pg.Client({ connectionString: stores.test.url });
    await holder.connect();
    await holder.query('begin');
    await holder.query('select from job_runs where job_name = $1 for update', [held.jobName]);
    const kinds = async () =>
      (await stores.runs.endAll([held, free].map((run) => ({ run, end: DONE })))).map(({ kind }) => kind);
    expect(await kinds()).toEqual(['passed over', 'written']);
    await holder.query('rollback');
    await holder.end();
    expect(await kinds()).toEqual(['written', 'passed over']);
  });

  it.each([
    DONE,
    FAILED,
    { ...FAILED, status: 'dead', retryInMs: null, reason: 'no more' },
    { ...FAILED, status: 'queued', error: null, retryInMs: 0, releases: 1 },
  ] as const)('an end in a group writes what it writes by itself: %j', async (ending) => {
    const [alone, together, other] = [await owned(), await owned(), await owned()];
    for (const run of [alone, together]) await change(run, 'cancel_reason = null');
    const end = await stores.runs.end(alone, ending);
    const [answer] = await stores.runs.endAll([
      { run: together, end: ending },
      { run: other, end: DONE },
    ]);
    expect(answer).toEqual({ kind: 'written', end });
    const facts = ({
      job_name,
      id,
      fire_time,
      lease_until,
      started_at,
      finished_at,
      next_attempt_at,
      created_at,
      ...rest
    }: Record<string, unknown>) => ({
      ...rest,
      finished: finished_at !== null,
      waitsMs: next_attempt_at === null ? null : (next_attempt_at as Date).getTime() - (finished_at as Date).getTime(),
    });
    expect(facts(await row(together))).toEqual(facts(await row(alone)));
  });

  it('a group cancels what was to be cancelled and has ended otherwise, and lets what has completed be done', async () => {
    const [failed, done] = [await owned(), await owned()];
    for (const run of [failed, done]) await change(run, `cancel_requested_at = now(), cancel_reason = 'wrong month'`);
    const answers = await stores.runs.endAll([
      { run: failed, end: FAILED },
      { run: done, end: DONE },
    ]);
    expect(answers).toEqual([
      { kind: 'written', end: { status: 'cancelled', reason: 'wrong month' } },
      { kind: 'written', end: { status: 'done', reason: null } },
    ]);
    expect(await row(failed)).toMatchObject({ status: 'cancelled', next_attempt_at: null, error: { message: 'no' } });
  });

  it.each<[RunEnd['status'], string]>([
    ['failed', 'cancelled'],
    ['dead', 'cancelled'],
    ['queued', 'cancelled'],
  ])(
    'an attempt that was to be cancelled and ends as %s before it heard of that does not start again',
    async (status, written) => {
      const run = await owned();
      await change(run, `cancel_requested_at = now(), cancel_reason = 'wrong month'`);
      expect(await stores.runs.end(run, { ...FAILED, status })).toEqual({ status: written, reason: 'wrong month' });
      expect(await row(run)).toMatchObject({ status: 'cancelled', next_attempt_at: null, error: { message: 'no' } });
    },
  );

  it('one that completed before it heard of that is done', async () => {
    const run = await owned();
    await change(run, `cancel_requested_at = now(), cancel_reason = 'wrong month'`);
    expect(await stores.runs.complete(run)).toEqual({ status: 'done', reason: null });
  });

  it('a completion says when, and a failure keeps its error and when to try again', async () => {
    const done = await owned();
    await stores.runs.complete(done);
    expect(await row(done)).toMatchObject({ status: 'done', finished_at: expect.any(Date), error: null });
    const failed = await owned();
    await stores.runs.end(failed, FAILED);
    const stored = await row(failed);
    expect(stored).toMatchObject({ status: 'failed', error: { name: 'Error', message: 'no', stack: null } });
    expect((stored['next_attempt_at'] as Date).getTime() - (stored['finished_at'] as Date).getTime()).toBeGreaterThan(
      59_000,
    );
  });
});
