import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { once } from 'node:events';
import {
  CronRun,
  DistributedCron,
  ReceiptService,
  SchedulerEvents,
  TimeoutError,
  type SchedulerEvent,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { Wire } from '../support/wire.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

const never = () => new Promise<void>(() => {});
const row = async (fireTime: Date) =>
  (await database.query<Record<string, any>>('select * from job_runs where fire_time = $1', [fireTime]))[0]!;

describe('a handler that takes longer than its timeout', () => {
  it('is told so by its signal; when it ends the attempt has failed with that, and the next one follows', async () => {
    let first: number | undefined;
    const reasons: unknown[] = [];
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'slow', overlap: 'allow', budget: 100, timeout: 300, backoff: 0 })
      async run({ fireTime, attempt, signal }: CronRun) {
        first ??= fireTime.getTime();
        if (fireTime.getTime() !== first || attempt > 1) return;
        if (!signal.aborted) await once(signal, 'abort');
        reasons.push(signal.reason);
      }
    }
    const app = await startApp(database, { providers: [Jobs] });
    const events: SchedulerEvent['type'][] = [];
    app.get(SchedulerEvents).subscribe(({ type, ...facts }) => {
      if ('fireTime' in facts && facts.fireTime.getTime() === first) events.push(type);
    });
    const { fireTime } = await nextEvent(app, 'run.completed', (event) => event.attempt === 2);
    expect(reasons).toEqual([expect.any(TimeoutError)]);
    expect(events.filter((type) => type !== 'run.claimed')).toEqual([
      'run.overBudget',
      'run.timedOut',
      'run.failed',
      'run.started',
      'run.completed',
    ]);
    const { status, earlier_attempts } = await row(fireTime);
    expect(status).toBe('done');
    expect(earlier_attempts).toMatchObject([
      {
        attempt: 1,
        status: 'failed',
        error: { name: 'TimeoutError', message: expect.stringContaining('its timeout of 300ms') },
      },
    ]);
  });
});

describe('trap 7: a handler that never ends', () => {
  it('keeps its run until its maxRunTime, then the next attempt starts, in this process, too, though there is room for one run alone', async () => {
    let first: number | undefined;
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'hung', timeout: 300, maxRunTime: '3s', lease: '1s', renewEvery: 200 })
      async run({ fireTime, attempt }: CronRun) {
        first ??= fireTime.getTime();
        if (fireTime.getTime() === first && attempt === 1) await never();
      }
    }
    const app = await startApp(database, { providers: [Jobs] }, { maxConcurrentRuns: 1, pollInterval: '200ms' });
    const lost = nextEvent(app, 'lease.lost');
    const abandoned = nextEvent(app, 'run.abandoned');
    const { fireTime } = await nextEvent(app, 'run.completed', (event) => event.fireTime.getTime() === first);
    expect(await lost).toMatchObject({ attempt: 1, cause: 'ran too long' });
    expect(await abandoned).toMatchObject({ attempt: 1 });
    const { status, attempt, started_at, earlier_attempts } = await row(fireTime);
    expect({ status, attempt }).toEqual({ status: 'done', attempt: 2 });
    expect(earlier_attempts).toMatchObject([{ attempt: 1, status: 'orphaned' }]);
    // By the database's clock: it was this process' run all the time.
    expect(started_at.getTime() - Date.parse(earlier_attempts[0].startedAt)).toBeGreaterThanOrEqual(3_000);
    await nextEvent(app, 'run.completed', (event) => event.fireTime.getTime() > first!);
  });

  it('no other replica starts it before, though its signal was aborted long ago', async () => {
    let hung: CronRun | undefined;
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', {
        name: 'hung',
        overlap: 'allow',
        timeout: 100,
        maxRunTime: '2s',
        lease: '1s',
        renewEvery: 200,
      })
      async run(run: CronRun) {
        hung ??= run;
        if (run === hung) await never();
      }
    }
    const apps = [
      await startApp(database, { providers: [Jobs] }, { pollInterval: '200ms' }),
      await startApp(database, { providers: [Jobs] }, { pollInterval: '200ms' }),
    ];
    const secondAttempt = Promise.race(
      apps.map((app) => nextEvent(app, 'run.completed', ({ attempt }) => attempt === 2)),
    );
    const { fireTime } = await secondAttempt;
    expect(hung!.signal.reason).toBeInstanceOf(TimeoutError);
    const { started_at, earlier_attempts } = await row(fireTime);
    expect(fireTime).toEqual(hung!.fireTime);
    expect(started_at.getTime() - Date.parse(earlier_attempts[0].startedAt)).toBeGreaterThanOrEqual(2_000);
  });

  it('is seen by SQL, from its budget on', async () => {
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'hung', budget: 200, lease: '1s' })
      run() {
        return never();
      }
    }
    const app = await startApp(database, { providers: [Jobs] }, { shutdownTimeout: 0 });
    const { fireTime } = await nextEvent(app, 'run.overBudget');
    const overdue = await database.query(
      `select run.fire_time
       from   job_runs run
       join   job_schedule job on job.name = run.job_name
       where  run.status = 'running'
       and    clock_timestamp() > run.started_at + (job.policies ->> 'budgetMs')::integer * interval '1 millisecond'`,
    );
    expect(overdue).toEqual([{ fire_time: fireTime }]);
  });
});

describe('an effect whose statement is never answered', () => {
  it('ends with the maxRunTime of its run: the effect happens once, in the next attempt', async () => {
    const wire = await Wire.to(database.url);
    await database.query('create table effects (attempt integer)');
    let first: number | undefined;
    @Injectable()
    class Jobs {
      constructor(private readonly receipts: ReceiptService) {}

      @DistributedCron('* * * * * *', {
        name: 'silent',
        overlap: 'allow',
        maxRunTime: '2s',
        lease: '1s',
        renewEvery: 200,
      })
      async run({ fireTime, attempt }: CronRun) {
        first ??= fireTime.getTime();
        if (fireTime.getTime() !== first) return;
        await this.receipts.once('a', async (manager) => {
          if (attempt === 1) wire.silenceNewest();
          await manager.query('insert into effects values ($1)', [attempt]);
        });
      }
    }
    // One connection each: that of the receipts is the newest.
    const app = await startApp(
      { ...database, url: wire.url },
      { providers: [Jobs] },
      { poolSize: 1, pollInterval: '200ms' },
    );
    try {
      const timedOut = nextEvent(app, 'run.timedOut');
      const refused = nextEvent(app, 'run.refused');
      await nextEvent(app, 'run.completed', (event) => event.fireTime.getTime() === first);
      expect(await timedOut).toMatchObject({ limit: 'maxRunTime', attempt: 1 });
      expect(await refused).toMatchObject({ attempt: 1 });
      expect(await database.query('select attempt from effects')).toEqual([{ attempt: 2 }]);
      expect(await row(new Date(first!))).toMatchObject({
        status: 'done',
        attempt: 2,
        earlier_attempts: [{ status: 'orphaned' }],
      });
    } finally {
      await closeApps();
      wire.end();
    }
  });
});
