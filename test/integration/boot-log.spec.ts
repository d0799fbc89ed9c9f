import { Injectable, type LoggerService, type Type } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  DistributedCron,
  DistributedCronHandler,
  DistributedSchedulerModule,
  JobRegistry,
  type DistributedSchedulerOptions,
} from '../../lib/index.js';
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
  return [...(await start(Jobs, options)).lines];
}

/** An application with its lines in the log, which go on. */
async function start(
  provider: Type,
  options: DistributedSchedulerOptions,
): Promise<{ app: TestingModule; lines: string[]; warnings: string[] }> {
  const [lines, warnings]: [string[], string[]] = [[], []];
  const write = (message: unknown, ...rest: unknown[]) => {
    if (rest.at(-1) === 'DistributedScheduler') lines.push(String(message));
  };
  const warn = (message: unknown, ...rest: unknown[]) => {
    write(message, ...rest);
    warnings.push(String(message));
  };
  const logger: LoggerService = { log: write, warn, error: warn, debug: write, verbose: write, fatal: write };
  const app = await Test.createTestingModule({
    imports: [DistributedSchedulerModule.forRoot(options)],
    providers: [provider],
  })
    .setLogger(logger)
    .compile();
  closing.push(() => app.close());
  await app.init();
  return { app, lines, warnings };
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
      (await linesOfStart({ connection: database.url, migrate: true, ...options })).filter((line) =>
        line.includes('implicit'),
      );
    expect(await implicit({})).toEqual([
      expect.stringMatching(
        /^1 job leaves owner, overlap or missed implicit: Jobs\.tidy \(owner, overlap\)\. .*strict: true/,
      ),
    ]);
    expect(await implicit({ defaults: { overlap: 'forbid' } })).toEqual([
      expect.stringContaining('Jobs.tidy (owner). Say them in the decorator, or overlap and missed in the module'),
    ]);
  });

  it('no warning to a first application, which leaves all to the defaults', async () => {
    class First {
      @DistributedCron('*/10 * * * * *', { name: 'greeting' })
      hello() {}
    }
    const { lines, warnings } = await start(First, { connection: database.url, migrate: true });
    expect(warnings).toEqual([]);
    expect(lines).toContainEqual(
      expect.stringMatching(
        /^greeting ".+" \(UTC\) next .+; overlap forbid, missed once within 1d, 3 attempts, lease 1m$/,
      ),
    );
  });

  it('that an operator has put another schedule in place of the declared one', async () => {
    await linesOfStart({ connection: database.url, migrate: true });
    await database.query(
      `update job_schedule set cron = '0 4 * * *', overridden_at = now(), overridden_by = 'ops' where name = 'Jobs.tidy'`,
    );
    const lines = (await linesOfStart({ connection: database.url })).filter(
      (line) => line.includes('operator') || line.includes('goes on as'),
    );
    expect(lines).toEqual([
      `Jobs.tidy is declared here as "@weekly" (UTC); an operator has put "0 4 * * *" (UTC) in its place, until that is cleared`,
    ]);
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
    const lines = (await linesOfStart({ connection: database.url })).filter((line) =>
      / is (paused|disabled)/.test(line),
    );
    expect(lines.sort()).toEqual([
      expect.stringMatching(/^Jobs\.tidy is disabled since \d{4}-.+Z: what comes due is recorded, and does not run$/),
      'nightly-invoice-export is paused since 2026-03-09T08:00:00.000Z until 2999-01-01T00:00:00.000Z by ops (migration): what comes due is recorded, and does not run',
    ]);
    await database.query(`update job_schedule set enabled = true, paused_at = null, paused_until = null`);
    expect(
      (await linesOfStart({ connection: database.url })).filter((line) => / is (paused|disabled)/.test(line)),
    ).toEqual([]);
  });

  it('no next time of a job that goes on under its former name', async () => {
    class Before {
      @DistributedCron('0 3 * * *', { name: 'nightly', owner: 'ops', overlap: 'forbid', missed: 'once' })
      run() {}
    }
    class After {
      @DistributedCron('0 3 * * *', {
        name: 'invoices',
        previously: 'nightly',
        owner: 'ops',
        overlap: 'forbid',
        missed: 'once',
      })
      run() {}
    }
    await start(Before, { connection: database.url, migrate: true });
    const { lines } = await start(After, { connection: database.url });
    expect(lines.filter((line) => line.startsWith('invoices'))).toEqual([
      'invoices is declared here as "0 3 * * *" (UTC), and goes on as the name "nightly" until the last instance that declares that is gone',
    ]);
  });

  it('nothing with logging: false', async () => {
    expect(await linesOfStart({ connection: database.url, migrate: true, logging: false })).toEqual([]);
  });

  it('in one line that an embedded server runs, when no database is configured', async () => {
    const lines = await withEnvironment({ NODE_ENV: 'test' }, () => linesOfStart({}));
    const ofServer = lines.filter((line) => line.includes('embedded'));
    expect(ofServer).toEqual([
      expect.stringMatching(
        /^No database is configured: started an embedded PostgreSQL on 127\.0\.0\.1:\d+ for this process alone\. .* Set DATABASE_URL or forRoot\(\{ connection \}\)/,
      ),
    ]);
    expect(lines[0]).toBe(ofServer[0]);
    expect(lines).toHaveLength(
      lines.filter((line) => /embedded|next|implicit|Made partitions|Scheduling/.test(line)).length,
    );
  });
});

describe('of a job made at run time the log says', () => {
  it('when it is made and when its schedule changes what is doubtful about it, as at a start', async () => {
    class Reports {
      @DistributedCronHandler('report')
      send() {}
    }
    const { app, lines } = await start(Reports, { connection: database.url, migrate: true });
    const said = () =>
      lines
        .splice(0)
        .filter((line) => line.startsWith('acme'))
        .map((line) => line.replace(/ on \d{4}-\d\d-\d\d | \(\d{4}-\S*\)$/g, ' … '));
    said();
    const jobs = app.get(JobRegistry);
    await jobs.add({ name: 'acme', cron: '15 2 13 * FRI', timeZone: 'CET', handler: 'report' });
    expect(said()).toEqual([
      'acme is scheduled as "15 2 13 * FRI" (CET) from now on',
      'acme: Cron "15 2 13 * FRI" restricts both the day of month and the day of week; it fires when either of them matches.',
      expect.stringContaining('acme: Time zone "CET"'),
    ]);
    await jobs.update('acme', { data: 1 });
    expect(said()).toEqual(['acme was updated; it stays scheduled as "15 2 13 * FRI" (CET)']);
    await jobs.update('acme', { cron: '15 2 * * *', timeZone: 'Europe/Berlin' });
    expect(said()).toEqual([
      'acme is scheduled as "15 2 * * *" (Europe/Berlin) from now on; until now as "15 2 13 * FRI" (CET)',
      'acme: … 02:15 does not exist in Europe/Berlin; it runs at 03:00 … ',
    ]);
  });
});
