import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { DistributedCron } from '../../lib/index.js';
import { DatabaseTime } from '../../lib/database/clock.js';
import { runJob } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

const original = Date.now;
afterEach(() => {
  Date.now = original;
});

/** Half a day from now: it comes due by neither clock. */
const HOUR = (new Date().getUTCHours() + 12) % 24;

@Injectable()
class Daily {
  @DistributedCron(`0 ${HOUR} * * *`, { name: 'daily' })
  run() {}
}

@Injectable()
class Minutely {
  @DistributedCron('* * * * *', { name: 'minutely' })
  run() {}
}

describe('an application on a machine whose clock is wrong', () => {
  it('G10 runJob runs the last occurrence by the database’s clock', async () => {
    const app = await startApp(database, { providers: [Minutely] }, { enabled: false });
    Date.now = () => original() + 3_600_000;
    const [before] = await database.query<{ minute: Date }>(`select date_trunc('minute', clock_timestamp()) as minute`);
    const end = await runJob(app, 'minutely');
    expect(end.type).toBe('run.completed');
    expect([0, 60_000]).toContain(end.fireTime.getTime() - before!.minute.getTime());
  });

  it('reads the database’s clock at every poll, with nothing to do, and is told when they disagree and when they agree', async () => {
    let skewMs = 0;
    Date.now = () => original() + skewMs;
    const app = await startApp(database, { providers: [Daily] }, { pollInterval: '50ms' });
    const time = app.get(DatabaseTime);
    const readings: unknown[] = [];
    const observe = time.observe.bind(time);
    time.observe = (...reading) => {
      readings.push(reading);
      observe(...reading);
    };
    skewMs = 120_000;
    const skewed = await nextEvent(app, 'clock.skewed');
    expect(Math.abs(skewed.skewMs - 120_000)).toBeLessThan(1_000);
    skewMs = 0;
    await nextEvent(app, 'clock.agrees');
    expect(readings.length).toBeGreaterThanOrEqual(2);
    expect(await database.query(`select from job_runs where job_name = 'daily'`)).toEqual([]);
  });
});
