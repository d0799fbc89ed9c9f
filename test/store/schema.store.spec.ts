import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { MigrationInterface } from 'typeorm';
import { resolveSchedulerOptions } from '../../lib/options/resolve-options.js';
import { monotonicNow } from '../../lib/database/clock.js';
import { SchedulerDatabase } from '../../lib/database/scheduler-database.js';
import { SchemaStore } from '../../lib/database/schema.store.js';
import { schedulerMigrations, type MigrationClass } from '../../migrations/index.js';
import { migration, numberOf } from '../../migrations/frozen.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { until } from '../support/until.js';

let test: TestDatabase;
let open: SchedulerDatabase[];
beforeEach(async () => {
  [test, open] = [await createTestDatabase(), []];
});
afterEach(async () => {
  for (const database of open) await database.close();
  await test.drop();
});

async function replica(migrations: MigrationClass[]): Promise<SchemaStore> {
  const database = await SchedulerDatabase.open(
    resolveSchedulerOptions({ connection: test.url }, { env: {}, embeddedInstalled: false }),
    { migrations },
  );
  open.push(database);
  return new SchemaStore(database);
}

describe('a replica that stands still while it migrates', () => {
  it('holds up the others for no longer than a second or so, and begins again', async () => {
    let thaw = () => {};
    let stands = () => {};
    const thawed = new Promise<void>((resolve) => (thaw = resolve));
    const standing = new Promise<void>((resolve) => (stands = resolve));
    let times = 0;
    class StandsStill1796999999999 implements MigrationInterface {
      readonly name = 'StandsStill1796999999999';
      async up(): Promise<void> {
        if (++times > 1) return;
        stands();
        await thawed;
      }
      async down(): Promise<void> {}
    }
    const frozen = (await replica([...schedulerMigrations, StandsStill1796999999999])).migrate();
    frozen.catch(() => {});
    await standing;
    const other = await replica(schedulerMigrations);
    const begun = monotonicNow();
    await other.migrate();
    expect(monotonicNow() - begun).toBeLessThan(4_000);
    await other.verify();
    thaw();
    await frozen;
    expect(times).toBe(2);
  });
});

describe('a replica that finds nothing to migrate', () => {
  it('does not wait for one that does: it needs no lock', async () => {
    await (await replica(schedulerMigrations)).migrate();
    const { coordination } = open[0]!;
    const runner = coordination.createQueryRunner();
    await runner.query('begin');
    await runner.query(`select pg_advisory_xact_lock(hashtextextended('nestjs-distributed-cron:migrate:public', 0))`);
    await (await replica(schedulerMigrations)).migrate();
    await runner.query('rollback');
    await runner.release();
  });
});

/** Everything up to the first change of a table that replicas of a release before are at work on. */
const RELEASE_BEFORE = schedulerMigrations.filter((one) => numberOf(new one().name!) < 1_796_000_000_010);

/** What a release after this one brings. */
const nextRelease = (serves?: number) => [
  ...schedulerMigrations,
  migration('Next1797000000001', { up: ['create table @schema.next ()'], down: ['drop table @schema.next'], serves })(),
];
const NEWEST = Math.max(...schedulerMigrations.map((one) => numberOf(new one().name!)));

describe('the version of the schema', () => {
  const stored = () => test.query('select version::float8, serves::float8 from scheduler_schema_version()');

  it('is the newest migration that has run, and follows it up and down', async () => {
    await (await replica(nextRelease())).migrate();
    expect(await stored()).toEqual([{ version: 1_797_000_000_001, serves: 1_796_000_000_001 }]);
    await open[0]!.coordination.undoLastMigration();
    expect(await stored()).toEqual([{ version: 1_797_000_000_000, serves: 1_796_000_000_001 }]);
    await expect((await replica(nextRelease())).verify()).rejects.toThrow(': Next1797000000001 has not run.');
  });

  it('tells a release which of its migrations have not run', async () => {
    await (await replica(RELEASE_BEFORE)).migrate();
    await expect((await replica(schedulerMigrations)).verify()).rejects.toThrow(
      /^Schema "public" is of an older release: CreateRunFunctions1796000000010, .*, DescribeInstances1796000000021.* have not run\. Set migrate: true/,
    );
  });

  it('tells an older release that it goes on', async () => {
    await (await replica(nextRelease())).migrate();
    const older = await replica(schedulerMigrations);
    await older.migrate();
    expect(await older.verify()).toBe(
      `Schema "public" is of a newer release of nestjs-distributed-cron (migration 1797000000001; this one knows those up to ${NEWEST}). It serves this release, too, which goes on`,
    );
    expect(await (await replica(nextRelease())).verify()).toBeNull();
  });

  it('refuses an older release that it serves no more, which changes nothing', async () => {
    await (await replica(nextRelease(1_797_000_000_001))).migrate();
    const older = await replica(schedulerMigrations);
    await expect(older.verify()).rejects.toThrow(expect.objectContaining({ code: 'newer-schema' }));
    await test.query('drop table distributed_cron_migrations');
    await expect(older.migrate()).rejects.toThrow(
      'which serves releases that know migration 1797000000001. Nothing was changed: update the library',
    );
    expect(await stored()).toEqual([{ version: 1_797_000_000_001, serves: 1_797_000_000_001 }]);
  });
});

describe('a replica that migrates beside others that work', () => {
  it('gives up what it waits for when a long transaction has it, so that nobody waits behind it, and comes again', async () => {
    await (await replica(RELEASE_BEFORE)).migrate();
    const effect = open[0]!.coordination.createQueryRunner();
    await effect.query('begin');
    await effect.query('select from job_runs');

    const newer = await replica(schedulerMigrations);
    const migrating = newer.migrate();
    await until(async () =>
      expect(
        await test.query(`select from pg_locks where relation = 'job_runs'::regclass and not granted`),
      ).toHaveLength(1),
    );
    const begun = monotonicNow();
    await test.query('select from job_runs');
    expect(monotonicNow() - begun).toBeLessThan(2_000);

    await effect.query('commit');
    await effect.release();
    await migrating;
    await newer.verify();
  });
});

describe('an installation of the release before', () => {
  /**
   * The moves as that release made them: its pages were worked at once when they were replayed, and no run waited for
   * them.
   */
  const ITS_MOVES = `
    create or replace function job_runs_refuse_move() returns trigger language plpgsql as $$
    begin
      if tg_op = 'UPDATE' and old.status || ' ' || new.status in ('dead fanned_out', 'dead queued', 'queued running') then
        return new;
      end if;
      raise exception 'A run may not go from % to %', old.status, new.status;
    end $$`;

  it('knows the moves of this one once it is upgraded: a run whose pages are replayed waits, and starts with them', async () => {
    await (await replica(RELEASE_BEFORE)).migrate();
    await test.query(ITS_MOVES);
    const upgraded = await replica(schedulerMigrations);
    await upgraded.migrate();
    await upgraded.verify();
    await test.query('create table job_runs_rest partition of job_runs default');
    await test.query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at, claimed_by, attempt, pages)
       values ('job', '2026-01-01', 'queued', 'schedule', now(), 'A', 1, 1)`,
    );
    await test.query(`update job_runs set status = 'fanned_out', next_attempt_at = null`);
    await expect(test.query(`update job_runs set status = 'running', lease_until = now()`)).rejects.toThrow(
      'A run may not go from fanned_out to running (job of 2',
    );
  });

  it('leaves nothing behind when all migrations are reverted', async () => {
    await (await replica(schedulerMigrations)).migrate();
    await test.query(`create function receipts_begin(its_job text) returns boolean language sql as 'select true'`);
    const { coordination } = open[0]!;
    for (const _ of schedulerMigrations) await coordination.undoLastMigration();
    expect(await test.query(`select proname from pg_proc where pronamespace = 'public'::regnamespace`)).toEqual([]);
    expect(
      await test.query(
        `select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and relname <> 'distributed_cron_migrations'`,
      ),
    ).toEqual([]);
    await (await replica(schedulerMigrations)).migrate();
  });
});
