import { Injectable, type LoggerService } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { DistributedCron, DistributedSchedulerModule, type DistributedSchedulerOptions } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { withEnvironment } from './support/environment.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

/** What an application with these options writes to Nest's Logger while it starts. */
async function linesOfStart(options: DistributedSchedulerOptions): Promise<string[]> {
  const lines: string[] = [];
  const write = (message: unknown, ...rest: unknown[]) => {
    if (rest.at(-1) === 'DistributedScheduler') lines.push(String(message));
  };
  const logger: LoggerService = { log: write, warn: write, error: write, debug: write, verbose: write, fatal: write };
  const app = await Test.createTestingModule({ imports: [DistributedSchedulerModule.forRoot(options)], providers: [Jobs] })
    .setLogger(logger)
    .compile();
  closing.push(() => app.close());
  await app.init();
  return lines;
}

@Injectable()
class Jobs {
  @DistributedCron('15 2 * * *', {
    name: 'nightly-invoice-export',
    timeZone: 'Asia/Kolkata',
    owner: 'billing',
    overlap: 'allow',
    missed: 'all',
    lease: '2m',
    jitter: '30s',
    maxAttempts: 5,
  })
  export() {}

  @DistributedCron('@weekly', { missed: 'skip', maxAttempts: 1 })
  tidy() {}
}

describe('at its start the application says', () => {
  it('one line for each job: name, expression, zone, next fire time there and in UTC, policies', async () => {
    const lines = await linesOfStart({ connection: database.url, migrate: true });
    const ofJobs = lines.filter((line) => line.includes(' next '));
    expect(ofJobs).toHaveLength(2);
    const [tidy, nightly] = ofJobs;
    expect(nightly).toMatch(
      /^nightly-invoice-export "15 2 \* \* \*" \(Asia\/Kolkata\) next \d{4}-\d\d-\d\d 02:15:00 Asia\/Kolkata \(\d{4}-\d\d-\d\dT20:45:00\.000Z\); overlap allow, missed all within 1d, 5 attempts, lease 2m, jitter 30s, owner billing$/,
    );
    expect(tidy).toMatch(
      /^Jobs\.tidy ".+" \(UTC\) next \d{4}-\d\d-\d\d 00:00:00 UTC \(\d{4}-\d\d-\d\dT00:00:00\.000Z\); overlap forbid, missed skip, 1 attempt, lease 1m$/,
    );
  });

  it('which instance it is, and with how many jobs, once partitions are made', async () => {
    const lines = await linesOfStart({ connection: database.url, migrate: true });
    expect(lines.at(-1)).toMatch(/^Scheduling 2 jobs as .+$/);
  });

  it('in one line which jobs leave an answer to a default that nobody chose', async () => {
    const implicit = async (options: DistributedSchedulerOptions) =>
      (await linesOfStart({ connection: database.url, migrate: true, ...options })).filter((line) => line.includes('implicit'));
    expect(await implicit({})).toEqual([expect.stringMatching(/^1 job leaves owner, overlap or missed implicit: Jobs\.tidy \(owner, overlap\)\. .*strict: true/)]);
    expect(await implicit({ defaults: { overlap: 'forbid' } })).toEqual([expect.stringContaining('Jobs.tidy (owner)')]);
  });

  it('that an operator has put another schedule in place of the declared one', async () => {
    await linesOfStart({ connection: database.url, migrate: true });
    await database.query(`update job_schedule set cron = '0 4 * * *', overridden_at = now(), overridden_by = 'ops' where name = 'Jobs.tidy'`);
    const lines = (await linesOfStart({ connection: database.url })).filter((line) => line.includes('operator') || line.includes('goes on as'));
    expect(lines).toEqual([`Jobs.tidy is declared here as "@weekly" (UTC); an operator has put "0 4 * * *" (UTC) in its place, until that is cleared`]);
    await database.query(`update job_schedule set cron = '@weekly', overridden_at = null`);
  });

  it('which jobs an operator holds back: since when, by whom and why', async () => {
    await linesOfStart({ connection: database.url, migrate: true });
    await database.query(
      `update job_schedule
       set    paused_at = '2026-03-09T08:00:00Z', paused_until = '2999-01-01', paused_by = 'ops', paused_reason = 'migration'
       where  name = 'nightly-invoice-export'`,
    );
    await database.query(`update job_schedule set enabled = false where name = 'Jobs.tidy'`);
    const lines = (await linesOfStart({ connection: database.url })).filter((line) => / is (paused|disabled)/.test(line));
    expect(lines.sort()).toEqual([
      expect.stringMatching(/^Jobs\.tidy is disabled since \d{4}-.+Z: what comes due is recorded, and does not run$/),
      'nightly-invoice-export is paused since 2026-03-09T08:00:00.000Z until 2999-01-01T00:00:00.000Z by ops (migration): what comes due is recorded, and does not run',
    ]);
    await database.query(`update job_schedule set enabled = true, paused_at = null, paused_until = null`);
    expect((await linesOfStart({ connection: database.url })).filter((line) => / is (paused|disabled)/.test(line))).toEqual([]);
  });

  it('nothing with logging: false', async () => {
    expect(await linesOfStart({ connection: database.url, migrate: true, logging: false })).toEqual([]);
  });

  it('in one line that an embedded server runs, when no database is configured', async () => {
    const lines = await withEnvironment({ NODE_ENV: 'test' }, () => linesOfStart({}));
    const ofServer = lines.filter((line) => line.includes('embedded'));
    expect(ofServer).toEqual([
      expect.stringMatching(/^No database is configured: started an embedded PostgreSQL on 127\.0\.0\.1:\d+ for this process alone\. .* Set DATABASE_URL or forRoot\(\{ connection \}\)/),
    ]);
    expect(lines[0]).toBe(ofServer[0]);
    expect(lines).toHaveLength(lines.filter((line) => /embedded|next|implicit|Made partitions|Scheduling/.test(line)).length);
  });
});
