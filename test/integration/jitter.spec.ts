import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { DistributedCron } from '../../lib/index.js';
import { jitterDelay } from '../../lib/jobs/job-cursors.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextRun, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

/** A start, by the database's clock. */
interface Start {
  readonly fire_time: Date;
  readonly claimed_by: string;
  readonly delay_ms: number;
}

it('jitter holds back every start, on one replica as on the next, by no more than the gap, and leaves the fire time alone', async () => {
  @Injectable()
  class Jobs {
    @DistributedCron('* * * * * *', { name: 'spread', jitter: '1h' })
    spread() {}
  }
  const delay = jitterDelay('spread', 3_600_000, 1_000);
  expect(delay).toBeGreaterThan(100);
  for (const _replica of ['first', 'second']) {
    const app = await startApp(database, { providers: [Jobs] });
    await nextRun(app, 'spread');
    await nextRun(app, 'spread');
    await closeApps();
  }
  const starts = await database.query<Start>(`
    select fire_time, claimed_by, extract(epoch from started_at - fire_time)::float8 * 1000 as delay_ms
    from   job_runs
    where  job_name = 'spread'
    and    started_at is not null`);
  expect(new Set(starts.map(({ claimed_by }) => claimed_by)).size).toBe(2);
  for (const { fire_time, delay_ms } of starts) {
    expect(fire_time.getTime() % 1_000).toBe(0);
    expect(delay_ms).toBeGreaterThanOrEqual(delay);
  }
});
