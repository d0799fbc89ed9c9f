import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { once } from 'node:events';
import {
  CancelledError,
  DistributedCron,
  SchedulerService,
  type CronRun,
  type DistributedCronOptions,
  type DistributedSchedulerOptions,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
let seen: CronRun[];
beforeEach(async () => {
  database = await createTestDatabase();
  seen = [];
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

const OPS = { by: 'ops', reason: 'because' };
/** Longer than a test takes: nothing but a cancel ends the handler. */
const STOPPING: DistributedSchedulerOptions = { shutdownTimeout: '5m' };
/** Nothing is found by a poll in the time that a test has. */
const DEAF_TO_POLLS: DistributedSchedulerOptions = { pollInterval: '1h' };

/** An application whose handler ends when it is told to. */
function app(
  scheduler: DistributedSchedulerOptions,
  { cron = '0 3 29 2 *', ...options }: DistributedCronOptions & { cron?: string } = {},
): Promise<TestingModule> {
  @Injectable()
  class Exports {
    @DistributedCron(cron, { name: 'export', ...options })
    async export(run: CronRun) {
      seen.push(run);
      if (!run.signal.aborted) await once(run.signal, 'abort');
    }
  }
  return startApp(database, { providers: [Exports] }, scheduler);
}

/** An application that stops while its handler runs. */
async function stopping(scheduler: DistributedSchedulerOptions, options: DistributedCronOptions = {}) {
  const one = await app({ ...STOPPING, ...scheduler }, options);
  const started = nextEvent(one, 'run.started');
  const { fireTime } = await one.get(SchedulerService).runNow('export', OPS);
  await started;
  const begins = nextEvent(one, 'scheduler.stopping');
  const cancelled = nextEvent(one, 'run.cancelled');
  const closed = one.close();
  await begins;
  return { fireTime, cancelled, closed };
}

const operator = async () => (await app({ enabled: false })).get(SchedulerService);
const rows = () => database.query('select status, reason, attempt from job_runs order by fire_time limit 1');

describe('a handler that still runs while its application stops', () => {
  it('is told of a cancel at once', async () => {
    const { fireTime, cancelled, closed } = await stopping(DEAF_TO_POLLS);
    expect(await (await operator()).cancel('export', fireTime, OPS)).toBe('requested');
    expect(await cancelled).toMatchObject({ fireTime, reason: 'cancelled by ops: because' });
    expect(seen[0]!.signal.reason).toBeInstanceOf(CancelledError);
    await closed;
    expect(await rows()).toEqual([{ status: 'cancelled', reason: 'cancelled by ops: because', attempt: 1 }]);
  });

  it('is told of it at the next poll when the wake-up is lost', async () => {
    const { fireTime, cancelled, closed } = await stopping({ pollInterval: '100ms' });
    await database.query(
      `update job_runs set cancel_requested_at = now(), cancel_reason = 'quietly' where fire_time = $1`,
      [fireTime],
    );
    expect(await cancelled).toMatchObject({ reason: 'quietly' });
    await closed;
  });

  it('is told of a flag that was turned off', async () => {
    const { cancelled, closed } = await stopping(DEAF_TO_POLLS, { flag: 'exports', flagOff: 'cancel' });
    await (await operator()).setFlag('exports', false, OPS);
    expect(await cancelled).toMatchObject({ reason: 'flag off: exports' });
    await closed;
  });

  it('is told that a newer occurrence, which another instance claimed, replaces it', async () => {
    const schedule = { cron: '* * * * * *', overlap: 'replace' } as const;
    const one = await app({ ...STOPPING, ...DEAF_TO_POLLS }, schedule);
    const { fireTime } = await nextEvent(one, 'run.started');
    const begins = nextEvent(one, 'scheduler.stopping');
    const replaced = nextEvent(one, 'run.cancelled', (event) => event.fireTime.getTime() >= fireTime.getTime());
    const closed = one.close();
    await begins;
    await app(DEAF_TO_POLLS, schedule);
    expect(await replaced).toMatchObject({ reason: 'replaced by a newer one' });
    await closed;
  });
});
