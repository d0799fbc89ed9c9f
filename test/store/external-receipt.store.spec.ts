import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import type { EntityManager } from 'typeorm';
import type { InDoubtPolicy } from '../../lib/receipts/receipt-options.js';
import type { OwnedRun } from '../../lib/options/run.js';
import { ReceiptRepository } from '../../lib/receipts/receipt.repository.js';
import { InDoubtStore } from '../../lib/operations/in-doubt.service.js';
import { IdempotencyKeys } from '../../lib/runs/idempotency-key.js';
import { aDue } from '../support/due.js';
import { blocked } from '../support/gate.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

const KEY = { entity: 'customer-1', effect: 'mail' };
const ERROR = { name: 'Error', message: 'socket hang up', stack: null };
const JOB = { name: 'job', maxAttempts: 3, overlap: 'forbid' as const };
const ANYTHING = {
  jobName: null,
  fireTime: null,
  from: null,
  to: null,
  entity: null,
  effect: null,
  idempotencyKey: null,
};
const ANNA = { by: 'anna', reason: 'asked the provider' };

let stores: Stores;
let calls: ReceiptRepository;
let doubts: InDoubtStore;
let first: OwnedRun;

beforeAll(async () => {
  stores = await openStores();
  calls = new ReceiptRepository(stores.database);
  doubts = new InDoubtStore(stores.database);
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query('delete from job_runs');
  await stores.test.query('delete from receipts');
  await stores.test.query('delete from job_actions');
  const fireTime = secondsAgo(1);
  const { answers } = await stores.claims.claimDue([aDue('job', fireTime)], 'A');
  first = {
    jobName: 'job',
    fireTime,
    attempt: 1,
    releases: 0,
    trigger: 'schedule',
    beside: false,
    instanceId: 'A',
    leaseMs: 60_000,
    leaseUntil: answers[0]!.leaseUntil!,
    leaseDeadline: 0,
  };
});

const transaction = async <Result>(work: (manager: EntityManager) => Promise<Result>) =>
  (await stores.database.receipts()).transaction(work);
const open = (run: OwnedRun, policy: InDoubtPolicy = 'park') =>
  transaction((manager) => calls.openCall(manager, run, KEY, 'the-key', policy));
const close = (run: OwnedRun, result = '"answer"') =>
  transaction((manager) => calls.closeCall(manager, run, KEY, result));
const receipt = async () =>
  (await stores.test.query('select state, attempt, claimed_by, result, error, resolved_by from receipts'))[0];
const endLease = () => stores.test.query(`update job_runs set lease_until = clock_timestamp()`);

function gates() {
  let letGo!: () => void;
  let haveOpened!: () => void;
  const held = new Promise<void>((resolve) => (letGo = resolve));
  const opened = new Promise<void>((resolve) => (haveOpened = resolve));
  return { held, letGo, opened, haveOpened };
}

/** The first attempt's lease is over, and another instance has gone on. */
async function takenOver(): Promise<OwnedRun> {
  await endLease();
  expect(await stores.reaper.reap([JOB], 10)).toHaveLength(1);
  const [waiting] = await stores.reaper.waiting([JOB], 1);
  const { answers } = await stores.claims.claimWaiting([{ ...waiting!, overlap: 'forbid', leaseMs: 60_000 }], 'B');
  return { ...first, attempt: answers[0]!.attempt!, instanceId: 'B' };
}

describe('a receipt that is there when a call is to be made', () => {
  it.each<[string, InDoubtPolicy, string]>([
    ['done', 'park', 'skip'],
    ['done', 'resend', 'skip'],
    ['undone', 'park', 'call'],
    ['undone', 'resend', 'call'],
    ['open', 'park', 'park'],
    ['open', 'resend', 'call again'],
    ['in_doubt', 'park', 'leave'],
    ['in_doubt', 'resend', 'call again'],
  ])('%s, %s: %s', async (state, policy, step) => {
    const found = await stores.test.query(
      'select receipt_call_step_1($1, true, $2) as external, receipt_call_step_1($1, false, $2) as internal',
      [state, policy],
    );
    expect(found).toEqual([{ external: step, internal: 'refuse' }]);
  });
});

describe('G4 a receipt of a call', () => {
  it('is open before the call, and done with its answer after it', async () => {
    expect(await open(first)).toEqual({ kind: 'opened', idempotencyKey: 'the-key', again: false });
    expect(await receipt()).toMatchObject({ state: 'open', attempt: 1, claimed_by: 'A' });
    expect(await close(first)).toBe('closed');
    expect(await receipt()).toMatchObject({ state: 'done', result: 'answer' });
    expect(await open(first)).toEqual({ kind: 'there', result: 'answer' });
    // Asked again, because the answer to the first was lost.
    expect(await close(first)).toBe('closed');
  });

  it('of an earlier attempt is parked, once, and stays a person’s', async () => {
    await open(first);
    const next = await takenOver();
    expect(await open(next)).toEqual({ kind: 'in doubt', parked: true, attempt: 1, error: null });
    expect(await open(next)).toEqual({ kind: 'in doubt', parked: false, attempt: 1, error: null });
    expect(await receipt()).toMatchObject({ state: 'in_doubt', attempt: 1, claimed_by: 'A' });
  });

  it('of an earlier attempt is opened again under the key that it has, where it is to be sent again', async () => {
    await open(first);
    const next = await takenOver();
    expect(await transaction((manager) => calls.openCall(manager, next, KEY, 'another', 'resend'))).toEqual({
      kind: 'opened',
      idempotencyKey: 'the-key',
      again: true,
    });
    expect(await receipt()).toMatchObject({ state: 'open', attempt: 2, claimed_by: 'B' });
  });

  it('is opened by nobody who has lost the run', async () => {
    await endLease();
    expect(await open(first)).toEqual({ kind: 'refused' });
    expect(await receipt()).toBeUndefined();
  });

  it('is opened again by nobody who lost the run while it waited for the row', async () => {
    await open(first);
    await stores.test.query(`update receipts set state = 'undone'`);
    const { held, letGo, opened: locked, haveOpened: haveLocked } = gates();
    const holder = transaction(async (manager) => {
      await manager.query('select from receipts for update');
      haveLocked();
      await held;
    });
    await locked;
    const late = open(first);
    await blocked(stores.test, 1);
    await endLease();
    letGo();
    await holder;
    expect(await late).toEqual({ kind: 'refused' });
    expect(await receipt()).toMatchObject({ state: 'undone' });
  });

  it('waits for one that is being opened, and finds it open', async () => {
    const { held, letGo, opened, haveOpened } = gates();
    const opening = transaction(async (manager) => {
      await calls.openCall(manager, first, KEY, 'the-key', 'park');
      haveOpened();
      await held;
    });
    await opened;
    const second = open(first);
    await blocked(stores.test, 1);
    letGo();
    await opening;
    expect(await second).toMatchObject({ kind: 'in doubt', parked: true });
  });

  it('that is being opened by a frozen process is ended by the reaper, and the next attempt makes the call', async () => {
    const { held: thawed, letGo: thaw, opened, haveOpened } = gates();
    const frozen = transaction(async (manager) => {
      await calls.openCall(manager, first, KEY, 'the-key', 'park');
      haveOpened();
      await thawed;
    });
    const refused = expect(frozen).rejects.toThrow();
    await opened;
    await endLease();
    const next = await takenOver();
    expect(await open(next)).toMatchObject({ kind: 'opened', again: false });
    thaw();
    await refused;
    expect(await receipt()).toMatchObject({ state: 'open', attempt: 2 });
  });

  it('is not taken for one of an effect in the database, nor the other way round', async () => {
    await open(first);
    expect(await transaction((manager) => stores.receipts.open(manager, first, KEY, 'k'))).toEqual({
      kind: 'external',
    });
    const other = { entity: 'customer-1', effect: 'default' };
    await transaction((manager) => stores.receipts.open(manager, first, other, 'k'));
    expect(await transaction((manager) => calls.openCall(manager, first, other, 'k', 'park'))).toEqual({
      kind: 'mixed',
    });
  });

  it('knows no other states, and none of them without a call', async () => {
    const insert = (state: string, openedAt: string) =>
      stores.test.query(
        `insert into receipts (job_name, fire_time, entity, attempt, claimed_by, idempotency_key, state, opened_at) values ('job', $1, 'x', 1, 'A', 'k', $2, ${openedAt})`,
        [first.fireTime, state],
      );
    await expect(insert('sent', 'now()')).rejects.toThrow(/receipts_state_known/);
    await expect(insert('open', 'null')).rejects.toThrow(/receipts_not_done_are_calls/);
  });
});

describe('G3 what comes of a call, known only to an attempt that has lost the run,', () => {
  it('is kept, while its call is in doubt', async () => {
    await open(first);
    const next = await takenOver();
    await open(next);
    expect(await close(first)).toBe('late');
    expect(await receipt()).toMatchObject({ state: 'done', attempt: 1, result: 'answer' });
  });

  it('changes nothing once the next attempt has made the call again', async () => {
    await open(first);
    const next = await takenOver();
    await open(next, 'resend');
    expect(await close(first, '"of the first"')).toBe('refused');
    await transaction((manager) => calls.failCall(manager, first, KEY, ERROR, 'undone'));
    expect(await transaction((manager) => calls.failCall(manager, first, KEY, ERROR, 'in_doubt'))).toBe(false);
    expect(await receipt()).toMatchObject({ state: 'open', attempt: 2, error: null });
    expect(await close(next, '"of the second"')).toBe('closed');
    expect(await close(first, '"of the first"')).toBe('refused');
    expect(await receipt()).toMatchObject({ result: 'of the second' });
  });

  it.each(['done', 'undone'] as const)('changes nothing once a person has said that it was %s', async (as) => {
    await open(first);
    await open(await takenOver());
    await doubts.resolve({ ...ANYTHING, jobName: 'job' }, 10, as, null, ANNA);
    expect(await close(first)).toBe('refused');
    expect(await receipt()).toMatchObject({ state: as, result: null, resolved_by: 'anna' });
  });
});

describe('a call that failed', () => {
  it('is in doubt at once, where a person is to decide', async () => {
    await open(first);
    expect(await transaction((manager) => calls.failCall(manager, first, KEY, ERROR, 'in_doubt'))).toBe(true);
    expect(await receipt()).toMatchObject({ state: 'in_doubt', error: ERROR });
    expect(await transaction((manager) => calls.failCall(manager, first, KEY, ERROR, 'in_doubt'))).toBe(false);
  });

  it('stays open, where it is to be sent again', async () => {
    await open(first);
    expect(await transaction((manager) => calls.failCall(manager, first, KEY, ERROR, 'open'))).toBe(true);
    expect(await receipt()).toMatchObject({ state: 'open', error: ERROR });
    expect(await open(first, 'resend')).toMatchObject({ kind: 'opened', again: true });
  });

  it('and surely did not get through is made by whoever comes next', async () => {
    await open(first);
    await transaction((manager) => calls.failCall(manager, first, KEY, ERROR, 'undone'));
    expect(await receipt()).toMatchObject({ state: 'undone', error: ERROR });
    expect(await open(await takenOver())).toMatchObject({ kind: 'opened', again: false });
    expect(await receipt()).toMatchObject({ state: 'open', attempt: 2, error: null });
  });

  it('and surely did not get through stays with the person who has it already, with the error', async () => {
    await open(first);
    await open(await takenOver());
    await transaction((manager) => calls.failCall(manager, first, KEY, ERROR, 'undone'));
    expect(await receipt()).toMatchObject({ state: 'in_doubt', error: ERROR });
  });
});

describe('calls in doubt', () => {
  const find = () => doubts.find(ANYTHING, 10);
  const status = (as: string) => stores.test.query(`update job_runs set status = $1, finished_at = now()`, [as]);

  it('are those that are parked, and open ones whose run has no attempt to come', async () => {
    await open(first);
    expect(await find()).toEqual([]);
    await endLease();
    await stores.reaper.reap([{ ...JOB, maxAttempts: 5 }], 10);
    // Orphaned: the next attempt finds it.
    expect(await find()).toEqual([]);
    expect(await doubts.parkEnded(10)).toEqual([]);
    await stores.deadLetters.discard(first, ['orphaned'], ANNA);
    const [found] = await find();
    expect(found).toEqual({
      jobName: 'job',
      fireTime: first.fireTime,
      ...KEY,
      attempt: 1,
      instanceId: 'A',
      openedAt: expect.any(Date),
      idempotencyKey: 'the-key',
      why: 'cut off',
      error: null,
      runStatus: 'cancelled',
    });
    expect(await doubts.parkEnded(10)).toMatchObject([{ jobName: 'job', ...KEY, attempt: 1, error: null }]);
    expect(await doubts.parkEnded(10)).toEqual([]);
    expect(await find()).toMatchObject([{ why: 'cut off' }]);
  });

  it('whose run has ended are not parked when the run has begun again meanwhile', async () => {
    await open(first);
    await status('done');
    const { held, letGo, opened, haveOpened } = gates();
    await stores.test.query(`alter table job_runs disable trigger user`);
    const next = transaction(async (manager) => {
      // Uncommitted: parkEnded still sees the run as done, and passes over the locked receipt.
      await manager.query(
        `update job_runs set status = 'running', attempt = 2, claimed_by = 'B', lease_until = now() + interval '1 minute'`,
      );
      const answer = await calls.openCall(manager, { ...first, attempt: 2, instanceId: 'B' }, KEY, 'k', 'resend');
      haveOpened();
      await held;
      return answer;
    });
    await opened;
    expect(await doubts.parkEnded(10)).toEqual([]);
    letGo();
    expect(await next).toMatchObject({ kind: 'opened', again: true });
    expect(await doubts.parkEnded(10)).toEqual([]);
    expect(await receipt()).toMatchObject({ state: 'open', attempt: 2 });
    await stores.test.query(`alter table job_runs enable trigger user`);
  });

  it('are found by job, run, time, entity, effect and key', async () => {
    await open(first);
    await open(await takenOver());
    const { fireTime } = first;
    const later = new Date(fireTime.getTime() + 1);
    const hits = [
      { jobName: 'job' },
      { fireTime },
      { from: fireTime },
      { to: fireTime },
      { entity: 'customer-1' },
      { effect: 'mail' },
      { idempotencyKey: 'the-key' },
    ];
    const misses = [
      { jobName: 'other' },
      { fireTime: later },
      { from: later },
      { to: secondsAgo(60) },
      { entity: 'x' },
      { effect: 'default' },
      { idempotencyKey: 'x' },
    ];
    for (const which of hits) expect(await doubts.find({ ...ANYTHING, ...which }, 10)).toHaveLength(1);
    for (const which of misses) expect(await doubts.find({ ...ANYTHING, ...which }, 10)).toEqual([]);
  });

  it('that were done are made by nobody again, and give the answer that the person has found', async () => {
    await open(first);
    const next = await takenOver();
    await open(next);
    const which = { ...ANYTHING, idempotencyKey: 'the-key' };
    expect(await doubts.resolve(which, 10, 'done', '{"id":"ch_1"}', ANNA)).toEqual({
      effects: [{ jobName: 'job', fireTime: first.fireTime, ...KEY }],
      left: 0,
    });
    expect(await doubts.resolve(which, 10, 'undone', null, ANNA)).toEqual({ effects: [], left: 0 });
    expect(await open(next)).toEqual({ kind: 'there', result: { id: 'ch_1' } });
    expect(
      await stores.test.query('select action, job_name, fire_time, actor, reason, details from job_actions'),
    ).toEqual([
      {
        action: 'resolve in doubt',
        job_name: 'job',
        fire_time: first.fireTime,
        actor: 'anna',
        reason: 'asked the provider',
        details: { ...KEY, as: 'done', idempotencyKey: 'the-key' },
      },
    ]);
  });

  it('whose row somebody holds are not waited for long: the person is told', async () => {
    await open(first);
    await open(await takenOver());
    const client = new pg.Client({ connectionString: stores.test.url });
    await client.connect();
    try {
      await client.query('begin');
      await client.query('select from receipts for update');
      await expect(doubts.resolve(ANYTHING, 10, 'done', null, ANNA)).rejects.toThrow(
        'Cannot resolve a call in doubt now',
      );
      await client.query('rollback');
    } finally {
      await client.end();
    }
    expect((await doubts.resolve(ANYTHING, 10, 'done', null, ANNA)).effects).toHaveLength(1);
  });

  it('that were undone are made by whoever comes next', async () => {
    await open(first);
    const next = await takenOver();
    await open(next);
    await doubts.resolve({ ...ANYTHING, jobName: 'job' }, 10, 'undone', null, ANNA);
    expect(await find()).toEqual([]);
    expect(await open(next)).toEqual({ kind: 'opened', idempotencyKey: 'the-key', again: false });
    expect(await receipt()).toMatchObject({ state: 'open', attempt: 2, resolved_by: null });
  });

  it('are decided a few at a time, the earliest first', async () => {
    for (const entity of ['a', 'b', 'c'])
      await transaction((manager) => calls.openCall(manager, first, { ...KEY, entity }, entity, 'park'));
    await stores.test.query(`update receipts set state = 'in_doubt'`);
    expect(await doubts.resolve({ ...ANYTHING, jobName: 'job' }, 2, 'done', null, ANNA)).toMatchObject({
      effects: [{ entity: 'a' }, { entity: 'b' }],
      left: 1,
    });
  });

  it('are not decided by a person who comes while the call is made again', async () => {
    await open(first);
    const next = await takenOver();
    await open(next);
    const { held, letGo, opened, haveOpened } = gates();
    const again = transaction(async (manager) => {
      await calls.openCall(manager, next, KEY, 'k', 'resend');
      haveOpened();
      await held;
    });
    await opened;
    const decision = doubts.resolve({ ...ANYTHING, jobName: 'job' }, 10, 'done', null, ANNA);
    await blocked(stores.test, 1);
    letGo();
    await again;
    expect(await decision).toMatchObject({ effects: [] });
    expect(await receipt()).toMatchObject({ state: 'open', attempt: 2, resolved_by: null });
  });
});

describe('the secret of idempotency keys', () => {
  const secret = async () => {
    const keys = new IdempotencyKeys(stores.database);
    await keys.read();
    return keys.secret;
  };

  it('is one for all replicas', async () => {
    expect(await secret()).toMatch(/^[0-9a-f-]{72}$/);
    expect(await secret()).toBe(await secret());
    await expect(stores.test.query('insert into receipt_secret default values')).rejects.toThrow(/receipt_secret_pkey/);
    await expect(stores.test.query('insert into receipt_secret (is_one) values (false)')).rejects.toThrow(
      /receipt_secret_is_one/,
    );
  });

  it('is drawn by one of several replicas where tables were copied without their rows', async () => {
    const [{ secret: old }] = (await stores.test.query<{ secret: string }>(
      'delete from receipt_secret returning secret',
    )) as [{ secret: string }];
    const drawn = await Promise.all([1, 2, 3, 4].map(() => secret()));
    expect(new Set(drawn).size).toBe(1);
    expect(drawn[0]).not.toBe(old);
  });
});
