import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { CronRun, DistributedCron, SchedulerEvents, type SchedulerEvent } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

const original = globalThis.setTimeout;
afterEach(() => {
  globalThis.setTimeout = original;
});

/** Every timer of the process fires this much too early, as timers and clocks that disagree make it. */
function wakeEarly(millis: number): void {
  globalThis.setTimeout = Object.assign(
    ((work: () => void, delay = 0, ...args: []) =>
      original(work, Math.max(0, delay - millis), ...args)) as typeof setTimeout,
    { __promisify__: original.__promisify__ },
  );
}

describe('timers that fire 20 ms early', () => {
  it.each([1, 2])('B09 start nothing early, lose nothing and repeat nothing, in %i replicas', async (replicas) => {
    wakeEarly(20);
    const starts: { fireTime: number; earlyMs: number }[] = [];
    @Injectable()
    class Each {
      @DistributedCron('* * * * * *', { name: `each-second-of-${replicas}`, overlap: 'allow' })
      async run({ fireTime }: CronRun) {
        const [row] = await database.query<{ early: number }>(
          'select 1000 * extract(epoch from $1::timestamptz - clock_timestamp())::float8 as early',
          [fireTime],
        );
        starts.push({ fireTime: fireTime.getTime(), earlyMs: row!.early });
      }
    }
    const apps = await Promise.all(Array.from({ length: replicas }, () => startApp(database, { providers: [Each] })));
    await new Promise<void>((resolve) => {
      for (const app of apps)
        app
          .get(SchedulerEvents)
          .of('run.completed')
          .subscribe(() => starts.length >= 6 && resolve());
    });
    const times = starts.map(({ fireTime }) => fireTime).sort((a, b) => a - b);
    expect(times).toEqual(times.map((_, index) => times[0]! + index * 1_000));
    expect(starts.filter(({ earlyMs }) => earlyMs > 0)).toEqual([]);
  });
});

describe('schedules that are years away', () => {
  it('neither run nor spin, and Node warns of no timer', async () => {
    const warnings: Error[] = [];
    const hear = (warning: Error) => warnings.push(warning);
    process.on('warning', hear);
    let timers = 0;
    globalThis.setTimeout = Object.assign(
      ((...args: Parameters<typeof setTimeout>) => {
        timers += 1;
        return original(...args);
      }) as typeof setTimeout,
      { __promisify__: original.__promisify__ },
    );
    @Injectable()
    class Seldom {
      @DistributedCron('0 0 1 1 *', { name: 'new-year' })
      newYear() {}

      @DistributedCron('0 0 29 2 *', { name: 'leap-day' })
      leapDay() {}
    }
    const app = await startApp(database, { providers: [Seldom] }, { pollInterval: '24d' });
    const events: SchedulerEvent[] = [];
    app.get(SchedulerEvents).subscribe((event) => events.push(event));
    const timersBefore = timers;
    // A timer that overflows fires after 1 ms and a warning; this one is later than that.
    await new Promise((resolve) => original(resolve, 300));
    process.off('warning', hear);
    expect(events).toEqual([]);
    expect(timers - timersBefore).toBeLessThan(50);
    expect(warnings.filter(({ name }) => name === 'TimeoutOverflowWarning')).toEqual([]);
    expect(await database.query(`select from job_runs where job_name in ('new-year', 'leap-day')`)).toEqual([]);
  });
});
