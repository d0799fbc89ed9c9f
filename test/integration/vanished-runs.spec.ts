import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { EntityManager } from 'typeorm';
import { DistributedCron, LeaseLostError, ReceiptService, SchedulerEvents, type CronRun } from '../../lib/index.js';
import { SchedulerDatabase } from '../../lib/database/scheduler-database.js';
import { runJob } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { latch } from '../support/latch.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';
import { inRun, type InRun } from './support/in-run.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.query('create table effects (what text)');
});
beforeEach(() => database.query('truncate effects'));
afterEach(closeApps);
afterAll(() => database.drop());

const write = (manager: EntityManager) => manager.query(`insert into effects values ('written')`);
const vanish = ({ jobName }: { jobName: string }) =>
  database.query('delete from job_runs where job_name = $1', [jobName]);
const inTheirs = async (
  { app }: InRun,
  level: 'READ COMMITTED' | 'SERIALIZABLE',
  work: (manager: EntityManager) => Promise<unknown>,
) => (await app.get(SchedulerDatabase).receipts()).transaction(level, work);
let calls = 0;

/** Each once it has vanished, and where there is a moment inside, when it vanishes in that. */
const FORMS: [string, (here: InRun) => Promise<unknown>][] = [
  ['once', ({ receipts }) => receipts.once('a', write)],
  [
    'once in the application’s transaction',
    (here) => inTheirs(here, 'READ COMMITTED', (manager) => here.receipts.once('a', write, { in: manager })),
  ],
  [
    'once in the application’s strict transaction',
    (here) => inTheirs(here, 'SERIALIZABLE', (manager) => here.receipts.once('a', write, { in: manager })),
  ],
  ['onceEach', ({ receipts }) => receipts.onceEach(['a', 'b'], (_, manager) => write(manager))],
  ['onceExternal', ({ receipts }) => receipts.onceExternal('a', () => (calls += 1), { inDoubt: 'park' })],
  ['run.checkpoint.save', ({ run }) => run.checkpoint.save(1)],
  ['run.transaction', ({ run }) => run.transaction(write)],
  ['run.transaction with a checkpoint', ({ run }) => run.transaction(write, { checkpoint: 1 })],
  ['run.transaction that completes', ({ run }) => run.transaction(write, { complete: true })],
  ['run.complete', ({ run }) => run.complete()],
];
const INSIDE: [string, (here: InRun) => Promise<unknown>][] = [
  ['once', ({ receipts, run }) => receipts.once('a', (manager) => write(manager).then(() => vanish(run)))],
  ['onceEach', ({ receipts, run }) => receipts.onceEach(['a'], (_, manager) => write(manager).then(() => vanish(run)))],
  ['run.transaction', ({ run }) => run.transaction((manager) => write(manager).then(() => vanish(run)))],
  [
    'run.transaction that completes',
    ({ run }) => run.transaction((manager) => write(manager).then(() => vanish(run)), { complete: true }),
  ],
];

async function expectNothing(thrown: unknown): Promise<void> {
  expect(thrown).toBeInstanceOf(LeaseLostError);
  expect(calls).toBe(0);
  expect(await database.query('select what from effects')).toEqual([]);
  expect(await database.query('select entity from receipts')).toEqual([]);
}

/** A standby was promoted that had not heard of the run, or somebody has deleted its row. */
describe('a run whose row has vanished', () => {
  it.each(FORMS)('does nothing any more in %s', async (_form, work) => {
    const thrown = await inRun(database, async (here) => {
      await vanish(here.run);
      return work(here).catch((error: unknown) => error);
    });
    await expectNothing(thrown);
  });

  it.each(INSIDE)('has done nothing in %s, when it vanishes in the middle', async (_form, work) => {
    await expectNothing(await inRun(database, (here) => work(here).catch((error: unknown) => error)));
  });

  it('is aborted by its next renewal, and its end is refused', async () => {
    const begun = latch();
    let reason: unknown;
    @Injectable()
    class Job {
      constructor(readonly receipts: ReceiptService) {}

      @DistributedCron('0 0 1 1 *', { name: 'long', lease: '3s', renewEvery: '200ms' })
      async run({ signal }: CronRun) {
        begun.open();
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        reason = signal.reason;
      }
    }
    const app = await startApp(database, { providers: [Job] });
    const told: string[] = [];
    app.get(SchedulerEvents).subscribe(({ type }) => told.push(type));
    const lost = nextEvent(app, 'lease.lost');
    const ended = runJob(app, 'long');
    await begun.opened;
    await vanish({ jobName: 'long' });
    expect(await lost).toMatchObject({ jobName: 'long', cause: 'taken over' });
    expect(await ended).toMatchObject({ type: 'run.refused' });
    expect(reason).toBeInstanceOf(LeaseLostError);
    expect(told).not.toContain('run.completed');
  });
});
