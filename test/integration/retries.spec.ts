import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { once } from 'node:events';
import {
  CancelledError,
  CronRun,
  DistributedCron,
  GiveUp,
  ReceiptService,
  RetryLater,
  SchedulerEvents,
} from '../../lib/index.js';
import { InFlightRuns } from '../../lib/runs/in-flight-runs.js';
import { DeadLetters } from '../../lib/operations/dead-letters.service.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

const row = async (jobName: string, fireTime: Date) =>
  (
    await database.query<Record<string, any>>('select * from job_runs where job_name = $1 and fire_time = $2', [
      jobName,
      fireTime,
    ])
  )[0]!;

describe('a handler decides about its retries', () => {
  it('it gives up: dead at once, for its reason, with what caused it', async () => {
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'gives-up', overlap: 'allow', maxAttempts: 9 })
      run() {
        throw new GiveUp('customer 7 is gone', { cause: new RangeError('no row') });
      }
    }
    const app = await startApp(database, { providers: [Jobs] });
    const dead = await nextEvent(app, 'run.dead');
    expect(dead).toMatchObject({ attempt: 1, reason: 'gave up: customer 7 is gone' });
    const stored = await row('gives-up', dead.fireTime);
    expect(stored).toMatchObject({
      status: 'dead',
      attempt: 1,
      reason: 'gave up: customer 7 is gone',
      error: { name: 'GiveUp', message: 'customer 7 is gone' },
    });
    expect(stored['error'].stack).toMatch(/retries\.spec[\s\S]*Caused by: RangeError: no row/);
  });

  it('it is not worth another: dead at once', async () => {
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', {
        name: 'hopeless',
        overlap: 'allow',
        retryable: (error) => !(error instanceof RangeError),
      })
      run() {
        throw new RangeError('never');
      }
    }
    const app = await startApp(database, { providers: [Jobs] });
    const dead = await nextEvent(app, 'run.dead');
    expect(await row('hopeless', dead.fireTime)).toMatchObject({
      status: 'dead',
      attempt: 1,
      reason: 'not retryable',
      error: { name: 'RangeError' },
    });
  });

  it('it says when: not by its backoff, and it counts as an attempt', async () => {
    let first: number | undefined;
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'later', overlap: 'allow', maxAttempts: 2, backoff: '1h' })
      run({ fireTime, attempt }: CronRun) {
        first ??= fireTime.getTime();
        if (fireTime.getTime() === first)
          throw new RetryLater(attempt === 1 ? 300 : new Date(Date.now() + 60_000), 'the bank is closed');
      }
    }
    const app = await startApp(database, { providers: [Jobs] });
    const failed = nextEvent(app, 'run.failed');
    const dead = await nextEvent(app, 'run.dead');
    expect(await failed).toMatchObject({
      retryInMs: 300,
      error: { name: 'RetryLater', message: 'the bank is closed' },
    });
    const stored = await row('later', dead.fireTime);
    expect(stored).toMatchObject({ status: 'dead', attempt: 2, reason: 'attempts used up' });
    expect(
      stored['started_at'].getTime() - Date.parse(stored['earlier_attempts'][0].finishedAt),
    ).toBeGreaterThanOrEqual(300);
  });
});

describe('a run that is cancelled', () => {
  it('is told by its signal, and ends as cancelled when its handler has ended, whatever that did', async () => {
    const reasons: unknown[] = [];
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'cancelled', maxAttempts: 9 })
      async run({ signal }: CronRun) {
        if (!signal.aborted) await once(signal, 'abort');
        reasons.push(signal.reason);
        throw new Error('stopped in the middle');
      }
    }
    const app = await startApp(database, { providers: [Jobs] });
    await nextEvent(app, 'run.started');
    app.get(InFlightRuns).list()[0]!.cancel('wrong month');
    const { fireTime } = await nextEvent(app, 'run.cancelled');
    expect(reasons[0]).toBeInstanceOf(CancelledError);
    expect(await row('cancelled', fireTime)).toMatchObject({
      status: 'cancelled',
      reason: 'wrong month',
      next_attempt_at: null,
      attempt: 1,
    });
  });
});

describe('a replay', () => {
  it('gives a dead run all its attempts again, and its receipts hold', async () => {
    let first: number | undefined;
    let broken = true;
    const effects: [entity: string, attempt: number, key: string][] = [];
    @Injectable()
    class Jobs {
      constructor(private readonly receipts: ReceiptService) {}

      @DistributedCron('* * * * * *', { name: 'mailing', overlap: 'allow', maxAttempts: 2, backoff: 0 })
      async run(run: CronRun) {
        first ??= run.fireTime.getTime();
        if (run.fireTime.getTime() !== first) return;
        for (const entity of ['a', 'b']) {
          if (broken && entity === 'b') throw new Error('no template');
          await this.receipts.once(entity, () => void effects.push([entity, run.attempt, run.idempotencyKey(entity)]));
        }
      }
    }
    const app = await startApp(database, { providers: [Jobs] }, { pollInterval: '200ms' });
    const dead = await nextEvent(app, 'run.dead');
    const letters = app.get(DeadLetters);
    const events: string[] = [];
    app
      .get(SchedulerEvents)
      .of('run.failed', 'run.dead', 'run.completed')
      .subscribe((event) => event.fireTime.getTime() === first && events.push(`${event.type} ${event.attempt}`));

    await letters.replay('mailing', dead.fireTime, { by: 'anna', reason: 'trying' });
    await nextEvent(app, 'run.dead', ({ attempt }) => attempt === 4);
    broken = false;
    expect(await letters.replayAll({ jobName: 'mailing' }, { by: 'anna' })).toEqual({
      runs: [{ jobName: 'mailing', fireTime: dead.fireTime }],
      left: 0,
    });
    await nextEvent(app, 'run.completed', (event) => event.fireTime.getTime() === first);
    expect(events).toEqual(['run.failed 3', 'run.dead 4', 'run.completed 5']);
    expect(effects.map(([entity, attempt]) => [entity, attempt])).toEqual([
      ['a', 1],
      ['b', 5],
    ]);
    const { id, earlier_attempts } = await row('mailing', dead.fireTime);
    expect(id).toBeDefined();
    expect(earlier_attempts.map(({ attempt, error }: any) => [attempt, error.message])).toEqual(
      [1, 2, 3, 4].map((attempt) => [attempt, 'no template']),
    );
  });
});
