import { Injectable } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DistributedCron, type CronRun, type DistributedCronOptions } from '../../lib/index.js';
import { Holds } from '../../lib/operations/holds.service.js';
import { eventually } from '../cluster/harness/eventually.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp } from './support/apps.js';

let database: TestDatabase;
let ran: { fireTime: Date; trigger: string }[];
beforeEach(async () => {
  database = await createTestDatabase();
  ran = [];
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

const OPS = { by: 'ops', reason: 'because' };

async function app(options: DistributedCronOptions, enabled = true) {
  @Injectable()
  class Job {
    @DistributedCron('* * * * * *', { name: 'job', ...options })
    run({ fireTime, trigger }: CronRun) {
      ran.push({ fireTime, trigger });
    }
  }
  return startApp(database, { providers: [Job] }, { enabled, pollInterval: 500 });
}

/** The job was there, and nobody ran it for so long. */
async function nobodyRan(options: DistributedCronOptions, interval: string): Promise<void> {
  await (await app(options, false)).close();
  await database.query(
    `update job_schedule set effective_from = now() - $1::interval, decided_until = date_trunc('second', now() - $1::interval)`,
    [interval],
  );
}

const caughtUp = () => ran.filter(({ trigger }) => trigger === 'catch-up').map(({ fireTime }) => fireTime);
const live = () => ran.filter(({ trigger }) => trigger === 'schedule').map(({ fireTime }) => fireTime.getTime());
const gap = async () =>
  (
    await database.query<{ reason: string; many: number }>(
      `select reason, gap_count as many from job_runs where gap_from is not null order by fire_time`,
    )
  ).map(({ reason, many }) => ({ reason, many }));

/** Live ones come second by second, without a hole. */
async function goesOnOnTime(): Promise<void> {
  await eventually('three live runs', async () => live().length >= 3);
  const [first, ...next] = live();
  expect(next.slice(0, 2)).toEqual([first! + 1_000, first! + 2_000]);
}

describe('B19 a job of every second that nobody ran for thirty days', () => {
  it('has one run for all of it, the newest, and goes on on time', async () => {
    await nobodyRan({ missed: 'once' }, '30 days');
    await app({ missed: 'once' });
    await goesOnOnTime();
    await eventually('the one', async () => caughtUp().length > 0);
    expect(caughtUp()).toHaveLength(1);
    const [many] = await gap();
    expect(many!.many).toBeGreaterThan(86_000);
  });

  it('has as many as may be caught up, oldest first, the others counted as missed', async () => {
    await nobodyRan({ missed: 'all', maxCatchUp: 20 }, '30 days');
    await app({ missed: 'all', maxCatchUp: 20 });
    await eventually('twenty', async () => caughtUp().length >= 20, { seen: async () => caughtUp().length });
    await goesOnOnTime();
    expect(caughtUp()).toHaveLength(20);
    expect(caughtUp().map(Number)).toEqual(
      caughtUp()
        .map(Number)
        .sort((a, b) => a - b),
    );
    expect((await gap()).map(({ many }) => many).reduce((sum, many) => sum + many, 0)).toBeGreaterThan(
      30 * 86_400 - 200,
    );
  });

  it('has nothing caught up of five minutes in which it was paused', async () => {
    const asking = await app({ missed: 'all', maxCatchUp: 1_000 }, false);
    await asking.get(Holds).pause('job', OPS);
    await database.query(
      `update job_schedule set effective_from = now() - interval '10 minutes', paused_at = now() - interval '5 minutes', decided_until = date_trunc('second', now() - interval '5 minutes')`,
    );
    await asking.get(Holds).resume('job', OPS);
    await app({ missed: 'all', maxCatchUp: 1_000 });
    await goesOnOnTime();
    const paused = await database.query<{ many: string }>(
      `select sum(coalesce(gap_count, 1)) as many from job_runs where status = 'skipped' and reason = 'paused'`,
    );
    expect(Number(paused[0]!.many)).toBeGreaterThanOrEqual(299);
    // Its seconds after the pause may have been caught up; none of the pause is.
    const during = await database.query(
      `select run.fire_time from job_runs run, job_schedule job, jsonb_array_elements(job.earlier_holds) hold
       where run.status <> 'skipped' and run.fire_time >= (hold ->> 'since')::timestamptz and run.fire_time < (hold ->> 'until')::timestamptz`,
    );
    expect(during).toEqual([]);
  });
});
