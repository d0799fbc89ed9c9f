import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { ClaimService, CronRun, DistributedCron, SchedulerEvents, type SchedulerEvent } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, nextRun, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

describe('a handler', () => {
  it('gets its run: name, fire time, the one before, attempt, trigger, signal, lease', async () => {
    const runs: CronRun[] = [];
    @Injectable()
    class Jobs {
      @DistributedCron('*/2 * * * * *', { name: 'fields' })
      run(run: CronRun) {
        runs.push(run);
      }
    }
    const app = await startApp(database, { providers: [Jobs] });
    const { fireTime } = await nextRun(app, 'fields');
    const [run] = runs;
    expect(run).toMatchObject({ jobName: 'fields', fireTime, attempt: 1, trigger: 'schedule' });
    expect(fireTime.getTime() % 2_000).toBe(0);
    expect(run!.previousFireTime).toEqual(new Date(fireTime.getTime() - 2_000));
    expect(run!.signal.aborted).toBe(false);
    expect(run!.leaseUntil.getTime() - fireTime.getTime()).toBeGreaterThan(55_000);
  });

  it('keeps its lease while it runs: the heartbeat moves leaseUntil on, for the run and in the database', async () => {
    let moved: Date[] = [];
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'long', lease: '1s', renewEvery: '200ms' })
      async run(run: CronRun) {
        const first = run.leaseUntil;
        while (run.leaseUntil.getTime() < first.getTime() + 500) await sleep(20, undefined, { signal: run.signal });
        moved = [first, run.leaseUntil];
      }
    }
    const app = await startApp(database, { providers: [Jobs] });
    const { fireTime } = await nextRun(app, 'long');
    expect(moved[1]!.getTime()).toBeGreaterThan(moved[0]!.getTime());
    expect(await app.get(ClaimService).find({ jobName: 'long', fireTime })).toMatchObject({
      status: 'done',
      attempt: 1,
    });
  });

  it('has idempotency keys that are the same on every attempt, and differ by entity and effect', async () => {
    const keys: string[][] = [];
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'keys', overlap: 'allow', maxAttempts: 2, backoff: 50 })
      run(run: CronRun) {
        if (run.attempt === 1 && keys.length > 0) return;
        keys.push([
          run.idempotencyKey('a'),
          run.idempotencyKey('b'),
          run.idempotencyKey('a', 'mail'),
          run.idempotencyKey(1),
          run.idempotencyKey('1'),
        ]);
        if (run.attempt === 1) throw new Error('once more');
      }
    }
    const app = await startApp(database, { providers: [Jobs] });
    await nextEvent(app, 'run.completed', ({ attempt }) => attempt === 2);
    const [first, second] = keys;
    expect(second).toEqual(first);
    expect(new Set(first).size).toBe(4);
    expect(first!.every((key) => /^[\w-]{43}$/.test(key))).toBe(true);
  });
});

describe('a failing handler', () => {
  it('is tried again after its backoff, until its attempts are used up; each attempt is kept with its error', async () => {
    const starts: number[] = [];
    let failing: Date | null = null;
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', {
        name: 'failing',
        overlap: 'allow',
        maxAttempts: 3,
        backoff: (failed) => failed * 200,
      })
      run(run: CronRun) {
        failing ??= run.fireTime;
        if (run.fireTime.getTime() !== failing.getTime()) return;
        starts.push(performance.now());
        throw Object.assign(new RangeError(`attempt ${run.attempt}`), { code: 'E42' });
      }
    }
    const app = await startApp(database, { providers: [Jobs] });
    const failures: SchedulerEvent[] = [];
    app
      .get(SchedulerEvents)
      .of('run.failed')
      .subscribe((event) => failures.push(event));
    const dead = await nextEvent(app, 'run.dead');
    const run = await app.get(ClaimService).find(dead);
    expect(failures).toMatchObject([
      { attempt: 1, retryInMs: 200, error: { name: 'RangeError', message: 'attempt 1' } },
      { attempt: 2, retryInMs: 400, error: { name: 'RangeError', message: 'attempt 2' } },
    ]);
    expect(starts[1]! - starts[0]!).toBeGreaterThanOrEqual(195);
    expect(starts[2]! - starts[1]!).toBeGreaterThanOrEqual(395);
    expect(run).toMatchObject({
      status: 'dead',
      attempt: 3,
      reason: 'attempts used up',
      error: { name: 'RangeError', message: 'attempt 3' },
    });
    expect(run!.error!.stack).toMatch(/runs\.spec/);
    expect(run!.earlierAttempts).toMatchObject([
      { attempt: 1, status: 'failed', error: { message: 'attempt 1' } },
      { attempt: 2, status: 'failed', error: { message: 'attempt 2' } },
    ]);
  });
});

describe('an occurrence due while an earlier run goes on', () => {
  async function runsOf(overlap: 'forbid' | 'allow', enough: (events: SchedulerEvent[]) => boolean) {
    const name = `overlap-${overlap}`;
    let running = 0;
    let most = 0;
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name, overlap })
      async run() {
        most = Math.max(most, ++running);
        await sleep(1_600);
        running--;
      }
    }
    const app = await startApp(database, { providers: [Jobs] });
    const events: SchedulerEvent[] = [];
    await new Promise<void>((resolve) =>
      app
        .get(SchedulerEvents)
        .of('run.completed', 'run.skipped')
        .subscribe((event) => {
          events.push(event);
          if (enough(events)) resolve();
        }),
    );
    await closeApps();
    const rows = await database.query<{ status: string; reason: string | null }>(
      'select status, reason from job_runs where job_name = $1 order by fire_time',
      [name],
    );
    return { most, rows };
  }

  it('is recorded as skipped, with forbid', async () => {
    const { most, rows } = await runsOf(
      'forbid',
      (events) => events.some(({ type }) => type === 'run.skipped') && events.at(-1)!.type === 'run.completed',
    );
    expect(most).toBe(1);
    expect(rows).toContainEqual({ status: 'skipped', reason: 'overlap' });
    expect(new Set(rows.map(({ status, reason }) => `${status} ${reason}`))).toEqual(
      new Set(['done null', 'skipped overlap']),
    );
  });

  it('runs beside it, with allow', async () => {
    const { most, rows } = await runsOf('allow', (events) => events.length === 2);
    // A busy machine may claim a third before the first has ended.
    expect(most).toBeGreaterThanOrEqual(2);
    expect(new Set(rows.map(({ status }) => status))).toEqual(new Set(['done']));
  });
});
