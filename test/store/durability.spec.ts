import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { OwnedRun } from '../../lib/options/run.js';
import { inMergedTransaction } from '../../lib/database/transactions.js';
import type { Statement } from '../../lib/database/transactions.js';
import { ReceiptRepository } from '../../lib/receipts/receipt.repository.js';
import { InDoubtStore } from '../../lib/operations/in-doubt.service.js';
import { onReceiptConnection } from '../../lib/database/transactions.js';
import { aDue } from '../support/due.js';
import { RestartableServer } from '../support/restartable-server.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';
import { until } from '../support/until.js';

const KEY = { entity: 'customer-1', effect: 'mail' };
const ERROR = { name: 'Error', message: 'socket hang up', stack: null };
const ANYTHING = {
  jobName: null,
  fireTime: null,
  from: null,
  to: null,
  entity: null,
  effect: null,
  idempotencyKey: null,
};

let server: RestartableServer;
let stores: Stores;
let calls: ReceiptRepository;
let run: OwnedRun;

beforeAll(async () => {
  server = await RestartableServer.create();
  await start();
  stores = await openStores(server.url);
  calls = new ReceiptRepository(stores.database);
  await stores.test.query('create table canary (what text)');
});
afterAll(async () => {
  await stores.close();
  await server.remove();
});

/** Nobody waits for the log by default, as a role, a database or a server may have it. */
const start = () => server.start('synchronous_commit=off', 'wal_writer_delay=10s', 'autovacuum=off');

beforeEach(async () => {
  await stores.test.query('truncate job_runs, receipts, job_actions, canary');
  const fireTime = secondsAgo(1);
  const { answers } = await stores.claims.claimDue([aDue('job', fireTime)], 'A');
  run = {
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

/** What has been committed before is on disk; what follows is there only if somebody has waited for it. */
async function crashAfter(work: () => Promise<unknown>): Promise<void> {
  await stores.test.query('checkpoint');
  await server.holdLogBack();
  await work();
  await stores.test.query(`insert into canary values ('nobody waits for it')`);
  await server.crash();
  await start();
  await until(async () => void (await stores.test.query('select 1')));
  // The crash was one: it has taken what nobody waited for.
  expect(await stores.test.query('select what from canary')).toEqual([]);
}

const alone = async <Result>(work: (manager: Parameters<ReceiptRepository['openCall']>[0]) => Promise<Result>) =>
  onReceiptConnection(await stores.database.receipts(), ({ manager }) => work(manager));
const open = () => alone((manager) => calls.openCall(manager, run, KEY, 'the-key', 'park'));
const receipt = async () => (await stores.test.query('select state, result, resolved_by from receipts'))[0];
const merged = async (opening: Statement, closing: readonly Statement[]) =>
  inMergedTransaction(await stores.database.receipts(), [opening], async () => ({ closing, result: null }));

describe('a server that crashes, and does not wait for its log by default', () => {
  it('has the receipt of a call that was about to be made: the call is not made a second time', async () => {
    await crashAfter(open);
    expect(await receipt()).toMatchObject({ state: 'open' });
    await stores.test.query(`update job_runs set lease_until = clock_timestamp()`);
    await stores.reaper.reap([{ name: 'job', maxAttempts: 3, overlap: 'forbid' }], 10);
    const [waiting] = await stores.reaper.waiting([{ name: 'job', maxAttempts: 3, overlap: 'forbid' }], 1);
    const { answers } = await stores.claims.claimWaiting([{ ...waiting!, overlap: 'forbid', leaseMs: 60_000 }], 'B');
    run = { ...run, attempt: answers[0]!.attempt!, instanceId: 'B' };
    expect(await open()).toEqual({ kind: 'in doubt', parked: true, attempt: 1, error: null });
  });

  it.each<[string, () => Promise<unknown>, object]>([
    [
      'the answer of a call',
      () => alone((manager) => calls.closeCall(manager, run, KEY, '"answer"')),
      { state: 'done', result: 'answer' },
    ],
    [
      'a call that is parked',
      () => alone((manager) => calls.failCall(manager, run, KEY, ERROR, 'in_doubt')),
      { state: 'in_doubt' },
    ],
    [
      'a call that was surely not made',
      () => alone((manager) => calls.failCall(manager, run, KEY, ERROR, 'undone')),
      { state: 'undone' },
    ],
  ])('has %s', async (_what, write, expected) => {
    await open();
    await crashAfter(write);
    expect(await receipt()).toMatchObject(expected);
  });

  it('has what a person has decided', async () => {
    await open();
    await alone((manager) => calls.failCall(manager, run, KEY, ERROR, 'in_doubt'));
    await crashAfter(() =>
      new InDoubtStore(stores.database).resolve(ANYTHING, 1, 'done', null, { by: 'anna', reason: 'asked' }),
    );
    expect(await receipt()).toMatchObject({ state: 'done', resolved_by: 'anna' });
  });

  it.each<[string, () => Promise<unknown>]>([
    ['a receipt', () => merged(stores.receipts.begin(run, KEY, 'k', true), [stores.receipts.end(run, KEY, null)])],
    [
      'a batch of receipts',
      () =>
        merged(calls.beginAll(run, 'mail', [{ entity: 'customer-1', idempotencyKey: 'k' }]), [
          stores.receipts.end(run, KEY, null),
        ]),
    ],
    ['a receipt of an occurrence', () => merged(calls.beginForOccurrence(run, KEY, 'A', 'k', true), [])],
  ])('has %s, with its effect', async (_what, write) => {
    await crashAfter(write);
    expect(await receipt()).toMatchObject({ state: 'done' });
  });

  it('has the completion that was committed with what the handler wrote', async () => {
    await crashAfter(() => merged(stores.steps.beginStep(run), [stores.steps.endStep(run, '1', true)]));
    expect(await stores.test.query('select status, checkpoint from job_runs')).toEqual([
      { status: 'done', checkpoint: 1 },
    ]);
  });

  it('leaves a transaction of the application’s as the application has it', async () => {
    const levels = await (await stores.database.receipts()).transaction(async (manager) => {
      await stores.receipts.open(manager, run, KEY, 'k');
      const [row] = (await manager.query(`select current_setting('synchronous_commit') as level`)) as {
        level: string;
      }[];
      return row!.level;
    });
    expect(levels).toBe('off');
  });

  it.each(['local', 'remote_write', 'on', 'remote_apply'])(
    'is not asked for less, or more, than the %s that somebody chose',
    async (level) => {
      const found = await (await stores.database.receipts()).transaction(async (manager) => {
        await manager.query(`set local synchronous_commit = ${level}`);
        await calls.openCall(manager, run, KEY, 'k', 'park');
        const [row] = (await manager.query(`select current_setting('synchronous_commit') as level`)) as {
          level: string;
        }[];
        return row!.level;
      });
      expect(found).toBe(level);
    },
  );
});
