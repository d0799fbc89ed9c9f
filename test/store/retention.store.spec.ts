import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import type { SchedulerEvent } from '../../lib/observe/scheduler-event.js';
import { RetentionService } from '../../lib/maintenance/partitions.service.js';
import type { RunStatus } from '../../lib/options/run.js';
import { resolveSchedulerOptions } from '../../lib/options/resolve-options.js';
import { SchedulerDatabase } from '../../lib/database/scheduler-database.js';
import { ToldStore } from '../../lib/observe/alerts.service.js';
import { RetentionStore } from '../../lib/maintenance/retention.store.js';
import { eventually } from '../cluster/harness/eventually.js';
import { aDue } from '../support/due.js';
import { insertRun } from '../support/run-rows.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

const DAY = 86_400_000;

let stores: Stores;
let retention: RetentionStore;
let heard: SchedulerEvent[];
beforeEach(async () => {
  stores = await openStores();
  retention = new RetentionStore(stores.database);
  heard = [];
});
afterEach(() => stores.close());

/** The first instant of a month, UTC. */
const month = (monthsAgo: number) =>
  new Date(Date.UTC(secondsAgo(0).getUTCFullYear(), secondsAgo(0).getUTCMonth() - monthsAgo, 1));
const nameOf = (table: string, monthsAgo: number) =>
  `${table}_${month(monthsAgo).toISOString().slice(0, 7).replace('-', '_')}`;
const namesOf = (monthsAgo: number) => ['job_runs', 'job_pages', 'receipts'].map((table) => nameOf(table, monthsAgo));
/** Those of every test database. */
const ALWAYS_THERE = [1, 0, -1].flatMap(namesOf).sort();
/** A moment of that month. */
const inMonth = (monthsAgo: number, minute = 0) => new Date(month(monthsAgo).getTime() + 9 * DAY + minute * 60_000);

function serviceOf(keptMs: number | null, store = retention): RetentionService {
  const events = new SchedulerEvents();
  events.subscribe((event) => heard.push(event));
  return new RetentionService({ retentionMs: keptMs }, store, new ToldStore(stores.database), events);
}
/** So that the months before the one that began so many months ago are to go. */
const keeping = (months: number) => Date.now() - month(months).getTime();
const facts = () => heard.map(({ at: _at, ...fact }) => fact);

const tablesThere = async () =>
  (
    await stores.test.query<{ name: string }>(
      `select relname as name from pg_class where relkind = 'r' and relname ~ '_\\d{4}_\\d{2}$' order by 1`,
    )
  ).map(({ name }) => name);
const partitionsThere = async () =>
  (
    await stores.test.query<{ name: string }>(
      `select inhrelid::regclass::text as name from pg_inherits join pg_class on pg_class.oid = inhrelid where relkind = 'r' order by 1`,
    )
  ).map(({ name }) => name);

async function aReceipt(fireTime: Date, state: 'open' | 'in_doubt' | 'done'): Promise<void> {
  await stores.test.query(
    `insert into receipts (entity, job_name, fire_time, attempt, claimed_by, state, idempotency_key, opened_at) values ('customer', 'job', $1, 1, 'A', $2, 'key', now())`,
    [fireTime, state],
  );
}

describe('the retention', () => {
  it('drops what has ended before it, whole: the oldest first, and a run before its pages and receipts', async () => {
    await stores.partitions.ensure([inMonth(5), inMonth(4), inMonth(3), inMonth(2)]);
    await insertRun(stores.test, 'job', inMonth(5), 'done');
    await aReceipt(inMonth(5), 'done');
    await insertRun(stores.test, 'job', inMonth(3), 'done');
    expect(await serviceOf(keeping(3)).forget()).toBe(DAY);
    expect(facts()).toEqual([{ type: 'partition.dropped', names: [...namesOf(5), ...namesOf(4)], dead: 0 }]);
    expect(await tablesThere()).toEqual([...namesOf(3), ...namesOf(2), ...ALWAYS_THERE].sort());
    expect(await stores.test.query('select fire_time from job_runs')).toEqual([{ fire_time: inMonth(3) }]);
  });

  it('that is not set drops nothing', async () => {
    await stores.partitions.ensure([inMonth(50)]);
    expect(await serviceOf(null).forget()).toBe(DAY);
    expect(await tablesThere()).toEqual(expect.arrayContaining(namesOf(50)));
  });

  it('of one application keeps what a job of another may still catch up, or expect a success of', async () => {
    await stores.partitions.ensure([inMonth(4), inMonth(3)]);
    const window = Date.now() - inMonth(4).getTime();
    await stores.test.query(
      `insert into job_schedule (name, cron, time_zone, policies) values ('other', '* * * * *', 'UTC', jsonb_build_object('catchUpWindowMs', $1::float8))`,
      [window],
    );
    await serviceOf(2 * DAY).forget();
    expect(facts()).toEqual([]);
    await stores.test.query(
      `update job_schedule set policies = jsonb_build_object('catchUpWindowMs', 1000, 'expectSuccessWithinMs', $1::float8)`,
      [window],
    );
    await serviceOf(2 * DAY).forget();
    expect(facts()).toEqual([]);
    await stores.test.query(`update job_schedule set removed_at = now()`);
    await serviceOf(keeping(3)).forget();
    expect(facts()).toMatchObject([{ names: namesOf(4) }]);
  });

  it.each(['"a day"', '[]', '1e400'])(
    'forgets for all jobs what is old enough when a policy of one of them is %s',
    async (policy) => {
      await stores.partitions.ensure([inMonth(4), inMonth(3)]);
      await stores.test.query(
        `insert into job_schedule (name, cron, time_zone, policies)
         values ('odd', '* * * * *', 'UTC', jsonb_build_object('catchUpWindowMs', 0, 'expectSuccessWithinMs', $1::jsonb))`,
        [policy],
      );
      await serviceOf(keeping(3)).forget();
      expect(facts()).toMatchObject(policy === '1e400' ? [] : [{ names: namesOf(4) }]);
    },
  );

  it.each<RunStatus>(['queued', 'running', 'fanned_out', 'failed', 'orphaned'])(
    'keeps a month with a run that is %s, with its pages and receipts, and says so once a day',
    async (status) => {
      await stores.partitions.ensure([inMonth(4), inMonth(3)]);
      await insertRun(stores.test, 'job', inMonth(4), status);
      const service = serviceOf(keeping(2));
      await service.forget();
      expect(facts()).toEqual([
        {
          type: 'partition.kept',
          name: nameOf('job_runs', 4),
          until: month(3),
          open: { runs: 1, pages: 0, inDoubt: 0, backfills: 0 },
        },
        { type: 'partition.dropped', names: namesOf(3), dead: 0 },
      ]);
      await service.forget();
      await serviceOf(keeping(2)).forget();
      expect(heard).toHaveLength(2);
      expect(await partitionsThere()).toEqual([...namesOf(4), ...ALWAYS_THERE].sort());
    },
  );

  it.each<[string, () => Promise<unknown>, object]>([
    [
      'a page that waits',
      () =>
        stores.test.query(
          `insert into job_pages (job_name, fire_time, page, next_attempt_at) values ('job', $1, '1', now())`,
          [inMonth(4)],
        ),
      { pages: 1 },
    ],
    ['a call in doubt', () => aReceipt(inMonth(4), 'in_doubt'), { inDoubt: 1 }],
    ['a call that is open', () => aReceipt(inMonth(4), 'open'), { inDoubt: 1 }],
    [
      'a backfill under way',
      () =>
        stores.backfills.create({
          jobName: 'job',
          from: inMonth(5),
          to: inMonth(4),
          maxConcurrent: 1,
          beside: false,
          replay: false,
          total: 1,
          requestedBy: null,
          reason: null,
        }),
      { backfills: 1 },
    ],
  ])('keeps a month with %s', async (_what, open, found) => {
    await stores.partitions.ensure([inMonth(4)]);
    await open();
    await serviceOf(keeping(2)).forget();
    expect(facts()).toEqual([
      {
        type: 'partition.kept',
        name: nameOf('job_runs', 4),
        until: month(3),
        open: { runs: 0, pages: 0, inDoubt: 0, backfills: 0, ...found },
      },
    ]);
    expect(await partitionsThere()).toEqual(expect.arrayContaining(namesOf(4)));
  });

  it('forgets dead runs with all others that have ended, and says how many they were', async () => {
    await stores.partitions.ensure([inMonth(4)]);
    for (const [minute, status] of (['dead', 'dead', 'done', 'skipped', 'cancelled'] as const).entries())
      await insertRun(stores.test, 'job', inMonth(4, minute), status);
    await serviceOf(keeping(3)).forget();
    expect(facts()).toEqual([{ type: 'partition.dropped', names: namesOf(4), dead: 2 }]);
  });

  it('is kept by replicas at the same time, each partition dropped by one', async () => {
    await stores.partitions.ensure([inMonth(7), inMonth(6), inMonth(5), inMonth(4)]);
    const services = [serviceOf(keeping(3)), serviceOf(keeping(3)), serviceOf(keeping(3))];
    await Promise.all(services.map((service) => service.forget()));
    await services[0]!.forget();
    const names = facts().flatMap((fact) => (fact.type === 'partition.dropped' ? fact.names : []));
    expect([...names].sort()).toEqual([7, 6, 5, 4].flatMap(namesOf).sort());
    expect(await tablesThere()).toEqual(ALWAYS_THERE);
  });

  it('does not drop what its role may not, and says why', async () => {
    await stores.partitions.ensure([inMonth(4)]);
    await asRole('', async (poor) => {
      await expect(serviceOf(keeping(3), poor).forget()).rejects.toThrow(
        'permission denied for function partition_mark_1',
      );
    });
    expect(await partitionsThere()).toEqual(expect.arrayContaining(namesOf(4)));
  });
});

/** As a role that owns nothing: it reads and writes the tables, and has these grants. */
async function asRole(grants: string, work: (store: RetentionStore, role: SchedulerDatabase) => Promise<void>) {
  const role = `poor_${process.pid}_${Date.now()}`;
  await stores.test.query(
    `create role ${role} login password 'p'; grant select, insert, update, delete on all tables in schema public to ${role}; ${grants && `grant ${grants} to ${role}`}`,
  );
  const url = Object.assign(new URL(stores.test.url), { username: role, password: 'p' }).href;
  const database = await SchedulerDatabase.open(
    resolveSchedulerOptions({ connection: url }, { env: {}, embeddedInstalled: false }),
  );
  try {
    await work(new RetentionStore(database, { detachWithinMs: 1_500, busyMs: 0 }), database);
  } finally {
    await database.close();
    await stores.test.query(`drop owned by ${role}; drop role ${role}`);
  }
}

describe('a role that owns nothing, and may execute the functions,', () => {
  const EXECUTE = 'execute on all functions in schema public';

  it('drops what has ended before the retention, and gives back what something was begun in', async () => {
    await stores.partitions.ensure([inMonth(5), inMonth(4)]);
    await insertRun(stores.test, 'job', inMonth(4), 'queued');
    await asRole(EXECUTE, async (store) => {
      expect(await serviceOf(keeping(3), store).forget()).toBe(DAY);
      expect(facts()).toMatchObject([
        { type: 'partition.kept', name: nameOf('job_runs', 4), open: { runs: 1 } },
        { type: 'partition.dropped', names: namesOf(5) },
      ]);
      await stores.test.query(`update job_runs set status = 'cancelled', next_attempt_at = null`);
      await serviceOf(keeping(3), store).forget();
    });
    expect(facts().at(-1)).toMatchObject({ type: 'partition.dropped', names: namesOf(4) });
    expect(await tablesThere()).toEqual(ALWAYS_THERE);
  });

  it('leaves what a transaction uses for another pass, finishes what an owner began, and holds no claim up for long', async () => {
    await stores.partitions.ensure([inMonth(4)]);
    const reader = new pg.Client({ connectionString: stores.test.url });
    await reader.connect();
    await reader.query('begin');
    await reader.query('select from job_runs');
    await asRole(EXECUTE, async (store) => {
      let longest = 0;
      let goesOn = true;
      const claiming = (async () => {
        while (goesOn) {
          const begun = performance.now();
          await stores.test.query(`select from job_runs where job_name = 'job'`);
          longest = Math.max(longest, performance.now() - begun);
        }
      })();
      expect(await serviceOf(keeping(3), store).forget()).toBe(60_000);
      goesOn = false;
      await claiming;
      expect(longest).toBeLessThan(1_000);
      expect(facts()).toEqual([{ type: 'partition.kept', name: nameOf('job_runs', 4), until: month(3), open: null }]);
      expect(await partitionsThere()).toEqual(expect.arrayContaining(namesOf(4)));
      // The owner gives up in the middle.
      const hasty = new RetentionStore(stores.database, { detachWithinMs: 300, busyMs: 0 });
      expect(await serviceOf(keeping(3), hasty).forget()).toBe(60_000);
      expect(await stores.test.query('select from pg_inherits where inhdetachpending')).toHaveLength(1);
      await reader.query('commit');
      await reader.end();
      await eventually('the rest to be dropped', async () => {
        await serviceOf(keeping(3), store).forget();
        return !(await tablesThere()).includes(nameOf('receipts', 4));
      });
    });
    expect(await tablesThere()).toEqual(ALWAYS_THERE);
  });

  it('drops no other table of the schema', async () => {
    await stores.test.query('create table customers (id text)');
    await asRole(EXECUTE, async (_store, { coordination }) => {
      const call = async (sql: string) => (await coordination.query(`select ${sql} as done`)) as [{ done: unknown }];
      expect(await call(`partition_mark_1('customers', 'detached', null, 'x')`)).toEqual([{ done: null }]);
      expect(await call(`partition_detach_1('job_runs', 'customers', 'attached', null)`)).toEqual([{ done: false }]);
      await call(`partition_unmark_1('customers')`);
      expect(
        await call(`(partition_drop_1('job_runs', 'customers', '-infinity', '2020-01-01', null, now())).verdict`),
      ).toEqual([{ done: 'busy' }]);
    });
    expect(await stores.test.query(`select to_regclass('customers') is not null as there`)).toEqual([{ there: true }]);
  });
});

describe('beside others', () => {
  let other: pg.Client;
  beforeEach(async () => {
    other = new pg.Client({ connectionString: stores.test.url });
    await other.connect();
    await other.query('begin');
  });
  afterEach(() => other.end());

  const isDetaching = async () =>
    (await stores.test.query('select from pg_inherits where inhdetachpending')).length === 1;

  it('what a transaction still reads is left half detached; claims go on, and the next pass finishes it', async () => {
    await stores.partitions.ensure([inMonth(4)]);
    await insertRun(stores.test, 'job', inMonth(4), 'done');
    await other.query('declare reading cursor for select * from job_runs');
    await other.query('fetch reading');
    const hasty = serviceOf(keeping(3), new RetentionStore(stores.database, { detachWithinMs: 300, busyMs: 0 }));
    const claiming = (async () => {
      await eventually('the detach waits', isDetaching);
      return stores.claims.claimDue([aDue('live', secondsAgo(1))], 'A');
    })();
    expect(await hasty.forget()).toBe(60_000);
    expect(await claiming).toMatchObject({ answers: [{ verdict: 'claimed' }] });
    expect(facts()).toEqual([{ type: 'partition.kept', name: nameOf('job_runs', 4), until: month(3), open: null }]);
    expect(await stores.test.query(`select from job_runs where job_name = 'job'`)).toEqual([]);
    // Still read: the cursor sees what it saw.
    expect(await hasty.forget()).toBe(60_000);
    expect((await other.query('fetch backward reading')).rows).toHaveLength(0);
    await other.query('commit');
    expect(await hasty.forget()).toBe(DAY);
    expect(facts().at(-1)).toEqual({ type: 'partition.dropped', names: namesOf(4), dead: 0 });
    expect(await tablesThere()).toEqual(ALWAYS_THERE);
  });

  it('what begins after the look is found when nobody can reach the month any more, and the month is given back', async () => {
    await stores.partitions.ensure([inMonth(4)]);
    await insertRun(stores.test, 'job', inMonth(4), 'dead');
    await other.query(
      `update job_runs set status = 'queued', reason = null, next_attempt_at = now() where job_name = 'job'`,
    );
    const forgetting = serviceOf(keeping(3)).forget();
    await eventually('the detach waits', isDetaching);
    await other.query('commit');
    expect(await forgetting).toBe(DAY);
    expect(facts()).toEqual([
      {
        type: 'partition.kept',
        name: nameOf('job_runs', 4),
        until: month(3),
        open: { runs: 1, pages: 0, inDoubt: 0, backfills: 0 },
      },
    ]);
    expect(await stores.test.query('select status from job_runs')).toEqual([{ status: 'queued' }]);
    expect(await partitionsThere()).toEqual(expect.arrayContaining(namesOf(4)));
    // As whole as before: it can be claimed, moves are still refused, and it goes once the run has ended.
    await expect(stores.test.query(`update job_runs set status = 'failed'`)).rejects.toThrow(
      /may not go from queued to failed/,
    );
    await stores.test.query(`update job_runs set status = 'cancelled', next_attempt_at = null`);
    await serviceOf(keeping(3)).forget();
    expect(facts().at(-1)).toEqual({ type: 'partition.dropped', names: namesOf(4), dead: 0 });
  });

  it('a replica that looked before another began leaves all to it: of a table PostgreSQL detaches one partition at a time', async () => {
    await stores.partitions.ensure([inMonth(5), inMonth(4)]);
    const looked = await retention.aged(keeping(3));
    await other.query('select from job_runs');
    const first = serviceOf(keeping(3)).forget();
    await eventually('the detach waits', isDetaching);
    const late = Object.assign(Object.create(retention) as RetentionStore, { aged: async () => looked });
    expect(await serviceOf(keeping(3), late).forget()).toBe(60_000);
    await other.query('commit');
    expect(await first).toBe(DAY);
    expect(facts()).toEqual([{ type: 'partition.dropped', names: [...namesOf(5), ...namesOf(4)], dead: 0 }]);
  });

  it('a replica that stops ends its wait', async () => {
    await stores.partitions.ensure([inMonth(4)]);
    await other.query('select from job_runs');
    const service = serviceOf(keeping(3));
    const forgetting = service.forget();
    await eventually('the detach waits', isDetaching);
    await service.stop();
    expect(await forgetting).toBe(60_000);
    expect(facts()).toEqual([]);
    await other.query('commit');
  });
});

describe('what was begun', () => {
  const bounds = (monthsAgo: number) =>
    `from ${month(monthsAgo).toISOString()} to ${month(monthsAgo - 1).toISOString()}`;
  const mark = (table: string, monthsAgo: number, since: Date) =>
    stores.test.query(
      `comment on table ${nameOf(table, monthsAgo)} is 'nestjs-distributed-cron drops this: ${table} ${bounds(monthsAgo)}, since ${since.toISOString()}'`,
    );
  const detach = (table: string, monthsAgo: number) =>
    stores.test.query(`alter table ${table} detach partition ${nameOf(table, monthsAgo)}`);

  it('by a replica that died is finished by another, which leaves alone what a living one is at', async () => {
    await stores.partitions.ensure([inMonth(4), inMonth(3)]);
    await mark('job_runs', 4, secondsAgo(0));
    await detach('job_runs', 4);
    expect(
      await serviceOf(
        keeping(2),
        new RetentionStore(stores.database, { detachWithinMs: 10_000, busyMs: 3_600_000 }),
      ).forget(),
    ).toBe(60_000);
    expect(await tablesThere()).toEqual(expect.arrayContaining([...namesOf(4), ...namesOf(3)]));
    await mark('job_runs', 4, secondsAgo(60));
    await serviceOf(keeping(2)).forget();
    expect(facts()).toEqual([{ type: 'partition.dropped', names: [...namesOf(4), ...namesOf(3)], dead: 0 }]);
  });

  it('is given back when the retention has become longer since', async () => {
    await stores.partitions.ensure([inMonth(4)]);
    await insertRun(stores.test, 'job', inMonth(4), 'done');
    await mark('job_runs', 4, secondsAgo(60));
    await detach('job_runs', 4);
    await serviceOf(keeping(6)).forget();
    expect(await partitionsThere()).toEqual(expect.arrayContaining(namesOf(4)));
    expect(await stores.test.query('select status from job_runs')).toEqual([{ status: 'done' }]);
    expect(facts()).toEqual([]);
  });

  it('is no more that of a replica that was frozen meanwhile: what another has given back is not dropped when it thaws', async () => {
    await stores.partitions.ensure([inMonth(4)]);
    await insertRun(stores.test, 'job', inMonth(4), 'done');
    const thaws = new RetentionStore(
      frozenOnceDetached(stores.database, async () => {
        await serviceOf(
          keeping(6),
          new RetentionStore(stores.database, { detachWithinMs: 10_000, busyMs: -60_000 }),
        ).forget();
        expect(await partitionsThere()).toEqual(expect.arrayContaining(namesOf(4)));
      }),
    );
    await serviceOf(keeping(3), thaws).forget();
    expect(await partitionsThere()).toEqual(expect.arrayContaining(namesOf(4)));
    expect(await stores.test.query('select status from job_runs')).toEqual([{ status: 'done' }]);
    expect(facts()).toEqual([]);
  });

  it('is not what a person has detached: that stays, whatever its name', async () => {
    await stores.partitions.ensure([inMonth(4)]);
    for (const table of ['job_runs', 'job_pages', 'receipts']) await detach(table, 4);
    await stores.test.query(`comment on table ${nameOf('job_runs', 4)} is 'archived by ada'`);
    expect(await serviceOf(keeping(2)).forget()).toBe(DAY);
    expect(facts()).toEqual([]);
    expect(await tablesThere()).toEqual(expect.arrayContaining(namesOf(4)));
  });

  it('cannot be beside a default partition, and says so', async () => {
    await stores.partitions.ensure([inMonth(4)]);
    await stores.test.query('create table anything partition of job_runs default');
    await expect(serviceOf(keeping(3)).forget()).rejects.toThrow(/default partition exists/);
    // Nobody who now detaches it by hand is to lose it.
    await detach('job_runs', 4);
    await stores.test.query('drop table anything');
    expect(await serviceOf(keeping(3)).forget()).toBe(DAY);
    expect(await tablesThere()).toContain(nameOf('job_runs', 4));
  });

  it('receipts outlive a run of their month that is left, whatever became of it', async () => {
    await stores.partitions.ensure([inMonth(4)]);
    await insertRun(stores.test, 'job', inMonth(4), 'done');
    const [receipts] = (await retention.aged(keeping(3))).partitions.filter(({ table }) => table === 'receipts');
    expect(await retention.forget(receipts!, Date.now())).toEqual({
      kind: 'kept',
      open: { runs: 1, pages: 0, inDoubt: 0, backfills: 0 },
    });
    expect(await partitionsThere()).toEqual(expect.arrayContaining(namesOf(4)));
  });
});

/** Between its detaching of a partition and what it does next, so much goes by. */
function frozenOnceDetached(database: SchedulerDatabase, meanwhile: () => Promise<void>): SchedulerDatabase {
  const aside: SchedulerDatabase['aside'] = (work) =>
    database.aside((source) => {
      const query = source.query.bind(source);
      source.query = (async (sql: string) => {
        const rows: unknown = await query(sql);
        if (sql.includes('detach partition')) await meanwhile();
        return rows;
      }) as typeof source.query;
      return work(source);
    });
  return Object.assign(Object.create(database) as SchedulerDatabase, { aside });
}
