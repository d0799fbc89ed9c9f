import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { CronRun, DistributedCron } from '../../lib/index.js';
import { INSTANCE_ID } from '../../lib/options/tokens.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { InsertGate } from '../support/gate.js';
import { Wire } from '../support/wire.js';
import { closeApps, nextEvent, nextRun, startApp } from './support/apps.js';

let database: TestDatabase;
let wire: Wire;
beforeEach(async () => {
  database = await createTestDatabase();
  wire = await Wire.to(database.url);
});
afterEach(async () => {
  await closeApps();
  wire.end();
  await database.drop();
});

describe('a claim that is carried out, and whose answer never comes', () => {
  it('is handed back at once and does not count as an attempt, also when it is carried out only later', async () => {
    const attempts: [fireTime: number, attempt: number][] = [];
    @Injectable()
    class Jobs {
      // Its lease would keep the run for longer than the test takes, and its one attempt would be used up.
      @DistributedCron('* * * * * *', { name: 'job', lease: '5m', maxAttempts: 1, overlap: 'allow' })
      run(run: CronRun) {
        attempts.push([run.fireTime.getTime(), run.attempt]);
      }
    }
    const app = await startApp({ ...database, url: wire.url }, { providers: [Jobs] }, { pollInterval: '200ms' });
    await nextRun(app, 'job');
    const gate = await InsertGate.shut(database, app.get<string>(INSTANCE_ID));
    await gate.reached();
    // The server does not notice: it is busy.
    wire.cut();
    wire.mend();
    const released = nextEvent(app, 'run.released');
    await gate.open();
    const { fireTime, attempt } = await released;
    expect(attempt).toBe(1);

    await nextEvent(app, 'run.completed', (event) => event.fireTime.getTime() === fireTime.getTime());
    const [row] = await database.query(
      'select status, attempt, releases, claimed_by from job_runs where fire_time = $1',
      [fireTime],
    );
    expect(row).toEqual({ status: 'done', attempt: 2, releases: 1, claimed_by: app.get<string>(INSTANCE_ID) });
    expect(attempts.filter(([at]) => at === fireTime.getTime())).toEqual([[fireTime.getTime(), 2]]);
  });
});
