import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { schedulerMigrations } from '../../migrations/index.js';
import {
  DistributedCron,
  DistributedCronHandler,
  DistributedSchedulerModule,
  SchedulerEvents,
  type DistributedSchedulerOptions,
  type SchedulerEvent,
} from '../../lib/index.js';
import { alertOf } from '../../lib/observe/alert-delivery.js';
import { ScheduleFollower } from '../../lib/jobs/schedule-follower.service.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { closeApps, startApp, startModules } from './support/apps.js';

/** Fires once in years: registered, never run. */
const SELDOM = '0 0 29 2 *';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  await startApp(database, {});
  await closeApps();
});
beforeEach(() => database.query('truncate job_instances, job_schedule'));
afterEach(closeApps);
afterAll(() => database.drop());

@Injectable()
class Shop {
  @DistributedCron(SELDOM, { name: 'cleanup', timeZone: 'Europe/Berlin' })
  cleanup() {}
  @DistributedCron(SELDOM, { name: 'orders' })
  orders() {}
  @DistributedCronHandler('report')
  report() {}
}
@Injectable()
class Billing {
  @DistributedCron('0 3 29 2 *', { name: 'cleanup', timeZone: 'Europe/Berlin' })
  cleanup() {}
  @DistributedCron(SELDOM, { name: 'invoices' })
  invoices() {}
  @DistributedCronHandler('report')
  report() {}
}

/** A started application, and all that it has told. */
async function start(provider: new () => unknown, options: DistributedSchedulerOptions) {
  const told: SchedulerEvent[] = [];
  const scheduler = DistributedSchedulerModule.forRoot({
    connection: database.url,
    logging: false,
    pollInterval: '100ms',
    ...options,
  });
  const app = await startModules({ imports: [scheduler], providers: [provider] }, (made) =>
    made.get(SchedulerEvents).subscribe((event) => told.push(event)),
  );
  const of = (type: SchedulerEvent['type']) => told.filter((event) => event.type === type);
  return { app, of };
}

/** An instance of this or another version, with what it says of itself. */
async function another(facts: {
  application?: string | null;
  jobs?: string[];
  handlers?: string[];
  tz?: string;
  zones?: object;
}) {
  await database.query(
    `insert into job_instances (id, jobs, handlers, alive_until, application, tz, zones) values ('another', $1, $2, now() + interval '1 hour', $3, $4, $5)`,
    [
      JSON.stringify(Object.fromEntries((facts.jobs ?? []).map((name) => [name, [SELDOM, 'UTC']]))),
      JSON.stringify(facts.handlers ?? []),
      facts.application ?? null,
      facts.tz ?? null,
      facts.zones ? JSON.stringify(facts.zones) : null,
    ],
  );
}

const own = async () =>
  (
    await database.query<{
      application: string;
      tz: string;
      icu: string;
      zones: Record<string, Record<string, number>>;
    }>(`select application, tz, icu, zones from job_instances where id <> 'another'`)
  )[0]!;

describe('two applications that share a schema and the name of a job', () => {
  it('are told at the start of the second, both of them: the other, the names, and what to do', async () => {
    const first = await start(Shop, { application: 'shop' });
    const second = await start(Billing, { application: 'billing' });
    expect(second.of('jobs.shared')).toMatchObject([
      { application: 'billing', other: 'shop', jobs: ['cleanup'], handlers: ['report'] },
    ]);
    await until(() => expect(first.of('jobs.shared')).toHaveLength(1));
    expect(first.of('jobs.shared')).toMatchObject([
      { application: 'shop', other: 'billing', jobs: ['cleanup'], handlers: ['report'] },
    ]);
    expect(alertOf(second.of('jobs.shared')[0]!)).toMatchObject({
      kind: 'jobs.shared',
      severity: 'warning',
      text: expect.stringMatching(
        /^The application "shop" has the job cleanup and the handler report, too, .*"billing": each occurrence runs in only one of them.*schema.*application/s,
      ),
    });
  });

  it('are told once, however often instances come and go', async () => {
    const first = await start(Shop, { application: 'shop' });
    const second = await start(Billing, { application: 'billing' });
    await until(() => expect(first.of('jobs.shared')).toHaveLength(1));
    await second.app.close();
    await start(Billing, { application: 'billing' });
    // It is told after all that came before it.
    await another({ application: 'warehouse', jobs: ['orders'] });
    await until(() => expect(first.of('jobs.shared')).toHaveLength(2));
    expect(first.of('jobs.shared')).toMatchObject([
      { other: 'billing' },
      { other: 'warehouse', jobs: ['orders'], handlers: [] },
    ]);
  });

  it('are told, too, where the other one is seen before it has said what it is', async () => {
    const first = await start(Shop, { application: 'shop', pollInterval: '1h' });
    const follower = first.app.get(ScheduleFollower, { strict: false });
    await another({ application: null, jobs: ['cleanup'] });
    await follower.follow();
    expect(first.of('jobs.shared')).toEqual([]);
    await database.query(`update job_instances set application = 'billing', zones = '{}' where id = 'another'`);
    await follower.follow();
    expect(first.of('jobs.shared')).toMatchObject([{ other: 'billing', jobs: ['cleanup'] }]);
  });

  it.each<[string, DistributedSchedulerOptions, { application?: string | null; jobs: string[] }]>([
    ['of one application', { application: 'shop' }, { application: 'shop', jobs: ['cleanup'] }],
    ['without a name in common', { application: 'shop' }, { application: 'billing', jobs: ['invoices'] }],
    [
      'of which one is unknown, as of a release before',
      { application: 'shop' },
      { application: null, jobs: ['cleanup'] },
    ],
  ])('are not told anything where they are %s', async (_what, options, facts) => {
    await another(facts);
    const { of } = await start(Shop, options);
    expect(of('jobs.shared')).toEqual([]);
  });

  it('are known by the name of their package, where nobody says it', async () => {
    await start(Shop, {});
    expect((await own()).application).toBe('nestjs-distributed-cron');
  });
});

describe('instances whose time-zone data differ', () => {
  it('say of themselves which data they have, and the rules of the zones that their jobs are in', async () => {
    await start(Shop, {});
    const { tz, icu, zones } = await own();
    expect({ tz, icu }).toEqual({ tz: process.versions['tz'], icu: process.versions['icu'] });
    expect(Object.keys(zones).sort()).toEqual(['Europe/Berlin', 'UTC']);
  });

  it('are warned of the zones in use whose clocks change otherwise there', async () => {
    await start(Shop, {});
    const { zones } = await own();
    await closeApps();
    const year = new Date().getUTCFullYear();
    const changed = { ...zones['Europe/Berlin']!, [year + 1]: 7 };
    await another({ tz: '1999z', zones: { ...zones, 'Europe/Berlin': changed, 'Asia/Tokyo': { [year]: 1 } } });
    const { of } = await start(Shop, {});
    expect(of('zones.differ')).toMatchObject([
      { zones: ['Europe/Berlin'], tz: process.versions['tz'], other: 'another', otherTz: '1999z' },
    ]);
    expect(alertOf(of('zones.differ')[0]!)).toMatchObject({
      kind: 'zones.differ',
      text: expect.stringMatching(/Europe\/Berlin.*another \(tz 1999z\).*here \(tz \S+\).*same version of Node\.js/s),
    });
  });

  it('hear nothing where only zones differ that no job is in, or versions whose rules are the same', async () => {
    await start(Shop, {});
    const { zones } = await own();
    await closeApps();
    await another({ tz: '1999z', zones: { ...zones, 'Asia/Tokyo': { [new Date().getUTCFullYear()]: 1 } } });
    const { of } = await start(Shop, {});
    expect(of('zones.differ')).toEqual([]);
  });
});

describe('the migration that lets instances say more of themselves', () => {
  it('goes on a database of the release before, whose instances go on writing their rows, and is undone', async () => {
    const older = await createTestDatabase();
    const migrations = schedulerMigrations.slice(0, -1);
    const before = await new DataSource({ type: 'postgres', url: older.url, migrations }).initialize();
    await before.runMigrations();
    await before.destroy();
    await expect(startApp(older, {}, { migrate: false })).rejects.toThrow(
      /is of an older release: DescribeInstances1796000000021 has not run\. Set migrate: true/,
    );
    const announce = (id: string) =>
      older.query(
        `insert into job_instances (id, jobs, handlers, declares, alive_until) values ($1, '{}', '[]', 0, now())`,
        [id],
      );
    await announce('before');
    const source = await new DataSource({
      type: 'postgres',
      url: older.url,
      migrations: schedulerMigrations,
    }).initialize();
    await source.runMigrations();
    await announce('after');
    expect(await older.query('select id, application from job_instances order by id')).toEqual([
      { id: 'after', application: null },
      { id: 'before', application: null },
    ]);
    await source.undoLastMigration();
    expect(
      await older.query(
        `select attname from pg_attribute where attrelid = 'job_instances'::regclass and attname in ('application', 'tz', 'icu', 'zones')  and not attisdropped`,
      ),
    ).toEqual([]);
    await source.destroy();
    await older.drop();
  });
});
