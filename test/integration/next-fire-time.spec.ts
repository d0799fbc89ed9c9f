import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { DistributedCron, InvalidOptionsError, SchedulerService, nextFireTimes } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

@Injectable()
class Reports {
  @DistributedCron('30 9 * * *', { name: 'kolkata', timeZone: 'Asia/Kolkata' })
  kolkata() {}

  @DistributedCron('30 9 * * *', { name: 'new-york', timeZone: 'America/New_York' })
  newYork() {}
}

describe('B39 the next fire time that people are shown', () => {
  it('is the instant at which the job runs, beside the zone it is meant in, whatever the zones of server and reader', async () => {
    await database.query(
      `alter database ${new URL(database.url).pathname.slice(1)} set timezone to 'America/New_York'`,
    );
    const scheduler = (await startApp(database, { providers: [Reports] }, { migrate: true })).get(SchedulerService);
    const jobs = await scheduler.inventory();
    expect(jobs.map(({ name, timeZone }) => [name, timeZone])).toEqual([
      ['kolkata', 'Asia/Kolkata'],
      ['new-york', 'America/New_York'],
    ]);
    for (const { name, nextFireTime, timeZone } of jobs) {
      expect(nextFireTime).toEqual((await scheduler.nextFireTimes(name, { count: 1 }))[0]);
      const clock = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' });
      expect(clock.format(nextFireTime!)).toBe('09:30');
      // A day that New York makes an hour longer.
      expect(nextFireTime!.getTime() - Date.now()).toBeLessThanOrEqual(25 * 3_600_000);
    }
    expect(jobs[0]!.nextFireTime!.toISOString()).toContain('T04:00:00.000Z');
  });

  it('is none of a job that is paused, which is shown as such', async () => {
    const scheduler = (await startApp(database, { providers: [Reports] })).get(SchedulerService);
    await scheduler.pause('kolkata', { by: 'ops', reason: 'monsoon' });
    expect((await scheduler.inventory())[0]).toMatchObject({
      name: 'kolkata',
      nextFireTime: null,
      paused: { by: 'ops', reason: 'monsoon' },
    });
    await scheduler.resume('kolkata', { by: 'ops' });
    expect((await scheduler.inventory())[0]!.nextFireTime).not.toBeNull();
  });

  it('on the day before a clock change is the one that then comes', () => {
    const next = (from: string) =>
      nextFireTimes('30 2 * * *', { timeZone: 'America/New_York', from: new Date(from), count: 2 }).map((at) =>
        at.toISOString(),
      );
    // The clock jumps from 02:00 to 03:00 on the 8th, and goes back from 02:00 to 01:00 on the 1st of November.
    expect(next('2026-03-07T12:00:00Z')).toEqual(['2026-03-08T07:00:00.000Z', '2026-03-09T06:30:00.000Z']);
    expect(next('2026-10-31T12:00:00Z')).toEqual(['2026-11-01T07:30:00.000Z', '2026-11-02T07:30:00.000Z']);
  });

  it('is not there for what never comes: such a job is refused', async () => {
    @Injectable()
    class Never {
      @DistributedCron('0 0 30 2 *', { name: 'never' })
      run() {}
    }
    const refused = await startApp(database, { providers: [Never] }, { enabled: false }).catch(
      (error: unknown) => error,
    );
    expect(refused).toBeInstanceOf(InvalidOptionsError);
    expect((refused as InvalidOptionsError).problems).toEqual([expect.stringContaining('0 0 30 2 *')]);
  });
});
