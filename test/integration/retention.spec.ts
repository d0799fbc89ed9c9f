import { Injectable } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  CronRun,
  DistributedCron,
  DistributedSchedulerModule,
  SchedulerEvents,
  SchedulerService,
  type SchedulerEvent,
} from '../../lib/index.js';
import { PartitionsService, RetentionService } from '../../lib/maintenance/partitions.service.js';
import { eventually } from '../cluster/harness/eventually.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { latch } from '../support/latch.js';
import { closeApps, nextEvent, startApp, startModules } from './support/apps.js';

const DAY = 86_400_000;
/** Half an hour from now: nothing comes due by itself while the tests run. */
const MINUTE = (new Date().getUTCMinutes() + 30) % 60;

let database: TestDatabase;
let started: Date[];
let handled: () => Promise<void>;
beforeEach(async () => {
  database = await createTestDatabase();
  started = [];
  handled = async () => {};
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

@Injectable()
class Reports {
  @DistributedCron(`${MINUTE} * * * *`, {
    name: 'hourly',
    missed: 'all',
    maxCatchUp: 1_000,
    lateAfter: '1s',
    overlap: 'allow',
    catchUpWindow: '3h',
  })
  async report(run: CronRun) {
    started.push(run.fireTime);
    await handled();
  }
}

const start = (options = {}) =>
  startApp(database, { providers: [Reports] }, { retention: '10d', pollInterval: '200ms', ...options });
const rows = () =>
  database.query<{ fire_time: Date; status: string; reason: string }>(
    `select fire_time, status, reason from job_runs order by fire_time`,
  );
const monthOf = (instant: Date) => new Date(Date.UTC(instant.getUTCFullYear(), instant.getUTCMonth(), 1));
/** In the month before the last that is older than the retention; a whole month of it. */
const FORGOTTEN = monthOf(new Date(Date.now() - 75 * DAY));
const forgotten = (day: number, hour = 0) =>
  new Date(FORGOTTEN.getTime() + day * DAY + hour * 3_600_000 + MINUTE * 60_000);
const names = (month = FORGOTTEN) =>
  ['job_runs', 'job_pages', 'receipts'].map((table) => `${table}_${month.toISOString().slice(0, 7).replace('-', '_')}`);

describe('G11 what is forgotten does not run again', () => {
  it('though its job was held back for longer than the retention, and nothing of it was decided', async () => {
    const app = await start({ enabled: false });
    const scheduler = app.get(SchedulerService);
    await scheduler.backfill('hourly', forgotten(3), forgotten(3, 5), {});
    await database.query('update job_backfills set finished_at = now()');
    await database.query(
      `update job_schedule set effective_from = $1, decided_until = $1, paused_at = $1, paused_until = now() - interval '90 minutes'`,
      [forgotten(1)],
    );
    await database.query(
      `insert into job_runs (job_name, fire_time, status, trigger, reason) values ('hourly', $1, 'skipped', 'schedule', 'paused')`,
      [forgotten(2)],
    );
    await app.get(RetentionService, { strict: false }).forget();
    expect(await rows()).toEqual([]);
    await closeApps();

    const again = await start();
    await eventually(
      'all that was missed is decided',
      async () =>
        (await database.query("select from job_schedule where decided_until > now() - interval '1 hour'")).length === 1,
    );
    await eventually(
      'what was missed has run',
      async () =>
        (await database.query(`select from job_runs where status <> 'done' and status <> 'skipped'`)).length === 0,
    );
    const window = Date.now() - 4 * 3_600_000;
    expect(started.every((fireTime) => fireTime.getTime() > window)).toBe(true);
    expect(started.length).toBeGreaterThan(0);
    const skipped = (await rows()).filter(({ status }) => status === 'skipped');
    expect(skipped.map(({ reason }) => reason)).toContain('paused');
    expect(skipped.every(({ fire_time }) => fire_time.getTime() > window)).toBe(true);
    await again.get(RetentionService, { strict: false }).forget();
    expect((await rows()).length).toBeGreaterThan(0);
  });

  it('unless a person asks for it: a backfill makes its month again, which is kept until it is over', async () => {
    const app = await start();
    const scheduler = app.get(SchedulerService);
    const heard: SchedulerEvent[] = [];
    app.get(SchedulerEvents).subscribe((event) => heard.push(event));
    const gate = latch();
    handled = () => gate.opened;
    const retention = app.get(RetentionService, { strict: false });
    await scheduler.backfill('hourly', forgotten(3), forgotten(3, 1), { by: 'ada' });
    await eventually('it runs', async () => started.length > 0);
    await retention.forget();
    expect(heard).toContainEqual(expect.objectContaining({ type: 'partition.kept', name: names()[0] }));
    expect(heard.filter(({ type }) => type === 'partition.dropped')).toEqual([]);
    const finished = nextEvent(app, 'backfill.finished');
    gate.open();
    expect(await finished).toMatchObject({ total: 2, done: 2 });
    await retention.forget();
    expect(heard).toContainEqual(expect.objectContaining({ type: 'partition.dropped', names: names(), dead: 0 }));
    expect(await rows()).toEqual([]);
  });
});

it('is one of the duties of an instance that takes part, from its start to its end', async () => {
  const told: string[] = [];
  const scheduler = DistributedSchedulerModule.forRoot({
    connection: database.url,
    migrate: true,
    logging: false,
    retention: '10d',
  });
  const app = await startModules({ imports: [scheduler], providers: [Reports] }, (made) => {
    const service = made.get(RetentionService, { strict: false });
    for (const verb of ['start', 'stop'] as const) {
      const act = service[verb].bind(service);
      service[verb] = (async () => {
        told.push(verb);
        await act();
      }) as never;
    }
  });
  expect(told).toEqual(['start']);
  await app.close();
  expect(told).toEqual(['start', 'stop']);
});

describe('partitions that are kept ready', () => {
  it('a month that somebody detached and still is needed fails the start, with what to do', async () => {
    await start();
    await closeApps();
    const [name] = names(new Date());
    await database.query(`alter table job_runs detach partition ${name}`);
    await expect(start()).rejects.toThrow(
      new RegExp(`Table "public"."${name}" is there and is no partition of "public"."job_runs".*rename to`),
    );
  });

  it('are not made again when they would be dropped', async () => {
    const app = await start();
    const last = monthOf(new Date(monthOf(new Date()).getTime() - 1));
    const isOver = monthOf(new Date()).getTime() <= Date.now() - 10 * DAY;
    await app.get(RetentionService, { strict: false }).forget();
    await app.get(PartitionsService, { strict: false }).makeAhead();
    const there = await database.query(`select from pg_class where relname = any ($1::text[])`, [names(last)]);
    expect(there).toHaveLength(isOver ? 0 : 3);
  });
});
