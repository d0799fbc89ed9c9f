import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import pg from 'pg';
import { FlagStore, PauseStore } from '../../lib/operations/holds.service.js';
import { CancelStore, ManualRunStore } from '../../lib/operations/run-requests.service.js';
import { OverrideStore, SkipStore } from '../../lib/operations/schedule-edits.service.js';
import { PageLettersStore } from '../../lib/operations/dead-pages.service.js';
import { aDue } from '../support/due.js';
import { blocked } from '../support/gate.js';
import { aJob } from '../support/job.js';
import { insertRun } from '../support/run-rows.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let application: pg.Client;
let verbs: Readonly<Record<string, () => Promise<unknown>>>;

const PARTS = { handler: 'reports', options: {}, data: undefined };
const OPS = { by: 'ops', reason: 'because' };
const RUNNING = { jobName: 'job', fireTime: secondsAgo(10) };
const DEAD = { jobName: 'job', fireTime: secondsAgo(20) };
const ALL_DEAD = { status: 'dead' as const, jobName: null, from: null, to: null, errorContains: null };
const FUTURE = secondsAgo(-3_600);

beforeAll(async () => {
  stores = await openStores();
  await stores.partitions.ensure([DEAD.fireTime, FUTURE]);
  const { database, partitions, deadLetters, deadLettersInBulk } = stores;
  const [pauses, flags, skips] = [
    new PauseStore(database),
    new FlagStore(database),
    new SkipStore(database, partitions),
  ];
  const overrides = new OverrideStore(database, partitions);
  const [manual, cancels, pages] = [
    new ManualRunStore(database, partitions),
    new CancelStore(database),
    new PageLettersStore(database),
  ];
  verbs = {
    pause: () => pauses.pause('job', null, OPS),
    resume: () => pauses.resume('job', OPS),
    disable: () => pauses.setEnabled('job', false, OPS),
    enable: () => pauses.setEnabled('job', true, OPS),
    setFlag: () => flags.set('exports', true, OPS),
    skipNext: () => skips.skip('job', () => [FUTURE.getTime()], OPS),
    unskip: () => skips.unskip('job', FUTURE, OPS),
    runNow: () => manual.add({ jobName: 'job', overlap: 'allow', data: undefined, flagOff: null }, OPS),
    cancel: () => cancels.cancel(RUNNING, OPS),
    replay: () => deadLetters.replay(DEAD, ['dead'], OPS),
    discard: () => deadLetters.discard(DEAD, ['dead'], OPS),
    replayAll: () => deadLettersInBulk.replayAll(ALL_DEAD, 10, OPS, {}),
    discardAll: () => deadLettersInBulk.discardAll(ALL_DEAD, 10, OPS, {}),
    replayPages: () => pages.replay(DEAD, ['a'], OPS),
    override: () => overrides.override('job', () => aJob('job', '*/5 * * * * *').schedule, OPS),
    clearOverride: () => overrides.clear('job', OPS),
    addJob: () => stores.runTimeJobs.add({ job: aJob('added', '* * * * *'), parts: PARTS }),
    updateJob: () => stores.runTimeJobs.update('made', () => ({ job: aJob('made', '0 * * * *'), parts: PARTS })),
    removeJob: () => stores.runTimeJobs.remove('made'),
    cancelBackfill: async () => {
      const [{ id }] = (await stores.test.query<{ id: string }>('select id from job_backfills')) as [{ id: string }];
      return stores.cancels.cancel(id, 'job', OPS.by, OPS.reason);
    },
    discardPages: () => pages.discard(DEAD, ['a'], OPS),
  };
});
afterAll(() => stores.close());

beforeEach(async () => {
  await stores.test.query('truncate job_runs, job_pages, job_schedule, job_actions, job_flags, job_backfills');
  await stores.schedules.declare([aJob('job', '* * * * * *')], null);
  await stores.test.query(`update job_schedule set decided_until = '2000-01-01'`);
  await stores.claims.claimDue([aDue('job', RUNNING.fireTime)], 'A');
  await insertRun(stores.test, 'job', DEAD.fireTime, 'dead');
  await stores.test.query('update job_runs set pages = 1 where fire_time = $1', [DEAD.fireTime]);
  await stores.test.query(`insert into job_pages (job_name, fire_time, page, status) values ('job', $1, 'a', 'dead')`, [
    DEAD.fireTime,
  ]);
  application = new pg.Client({ connectionString: stores.test.url });
  await application.connect();
  await application.query('begin');
});
afterEach(() => application.end());

const actions = async () =>
  (await stores.test.query<{ action: string }>('select action from job_actions order by id')).map(
    ({ action }) => action,
  );
const ROW = `select from job_runs where job_name = 'job' and fire_time = $1`;

describe('a verb', () => {
  const NAMES = [
    'pause',
    'resume',
    'disable',
    'enable',
    'setFlag',
    'skipNext',
    'unskip',
    'runNow',
    'cancel',
    'replay',
    'discard',
    'replayAll',
    'discardAll',
    'replayPages',
    'discardPages',
  ];

  it.each(NAMES)(
    'changes what it changes in one statement, so that a process that freezes in it holds no lock: %s',
    async (name) => {
      if (name === 'unskip') await verbs['skipNext']!();
      await stores.test.query('truncate job_actions');
      const sent: string[] = [];
      const wire = pg.Connection.prototype as unknown as {
        query(text: string): void;
        parse(query: { text: string }): void;
      };
      const [query, parse] = [wire.query, wire.parse];
      const spies = [
        jest.spyOn(wire, 'query').mockImplementation(function (this: unknown, text) {
          sent.push(text);
          query.call(this, text);
        }),
        jest.spyOn(wire, 'parse').mockImplementation(function (this: unknown, ...args) {
          sent.push(args[0].text);
          parse.apply(this, args);
        }),
      ];
      try {
        await verbs[name]!();
      } finally {
        for (const spy of spies) spy.mockRestore();
      }
      expect(sent.at(-1)).toMatch(/^select \* from "public"\."\w+_1"\(/);
      // Besides it, only looks.
      expect(
        sent.slice(0, -1).filter((text) => !/^select/i.test(text) || /for (no key )?update|pg_advisory/i.test(text)),
      ).toEqual([]);
      expect(await actions()).toHaveLength(1);
    },
  );

  it.each(['pause', 'resume', 'disable', 'enable', 'skipNext', 'runNow', 'override', 'clearOverride'])(
    'does not wait for ever for a job whose row somebody holds, and says so: %s',
    async (name) => {
      await application.query(`select from job_schedule for update`);
      await expect(verbs[name]!()).rejects.toThrow(expect.objectContaining({ code: 'busy' }));
      expect(await actions()).toEqual([]);
    },
  );

  it.each(['skipNext', 'runNow'])('does not wait for ever for the claims of its job: %s', async (name) => {
    await application.query(`select pg_advisory_xact_lock(job_lock_1('job'))`);
    await expect(verbs[name]!()).rejects.toThrow(
      /^Cannot .* job "job" now: another transaction has held its rows for seconds. Nothing was changed: try again/,
    );
    expect(await actions()).toEqual([]);
  });

  it.each(['override', 'addJob', 'updateJob', 'removeJob', 'cancelBackfill'])(
    'waits for the claims of the job that it changes, and not for ever: %s',
    async (name) => {
      await stores.runTimeJobs.add({ job: aJob('made', '* * * * *'), parts: PARTS });
      await stores.test.query(
        `insert into job_backfills (job_name, range_from, range_to, fed_until, max_concurrent, beside, replay, total)
         values ('job', now(), now(), now(), 1, false, false, 1)`,
      );
      await application.query(`select job_lock_all_1('{job,made,added}')`);
      await expect(verbs[name]!()).rejects.toThrow(expect.objectContaining({ code: 'busy' }));
      await application.query('commit');
      await verbs[name]!();
    },
  );

  it.each(['cancel', 'replay', 'discard'])(
    'holds no connection while a transaction of the application holds its run, and goes on after that: %s',
    async (name) => {
      for (const { fireTime } of [RUNNING, DEAD]) await application.query(`${ROW} for update`, [fireTime]);
      const ten = Promise.allSettled(Array.from({ length: 10 }, () => verbs[name]!()));
      // All connections of the pool are in use by verbs, if these wait on them.
      expect(await stores.database.coordination.query('select 1 as free')).toEqual([{ free: 1 }]);
      expect(
        await stores.test.query(
          `select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`,
        ),
      ).toEqual([]);
      await application.query('commit');
      expect((await ten).map(({ status }) => status)).toContain('fulfilled');
      expect(await actions()).toContain(name);
    },
  );

  it('whose run is held for good gives up, and says so', async () => {
    await application.query(`${ROW} for update`, [RUNNING.fireTime]);
    await expect(verbs['cancel']!()).rejects.toThrow(
      `Cannot cancel the run of job "job" of ${RUNNING.fireTime.toISOString()} now`,
    );
    expect(await actions()).toEqual([]);
  });
});

describe('a cancel', () => {
  it('does not wait for a receipt that is about to commit, in whose transaction the run’s row is shared', async () => {
    await application.query(`${ROW} for key share`, [RUNNING.fireTime]);
    expect(await Promise.all([verbs['cancel']!(), verbs['cancel']!(), verbs['cancel']!()])).toContain('requested');
  });
});

describe('a skip', () => {
  it('is decided anew when its job was changed between the look at it and the skip', async () => {
    // Not committed: the look still sees the job as it was.
    await application.query(`update job_schedule set cron = '*/5 * * * * *'`);
    const looks: string[] = [];
    const skips = new SkipStore(stores.database, stores.partitions);
    const skipped = skips.skip(
      'job',
      ({ cron }) => {
        looks.push(cron);
        return [FUTURE.getTime()];
      },
      OPS,
    );
    await blocked(stores.test, 1);
    await application.query('commit');
    expect(await skipped).toEqual([FUTURE]);
    expect(looks).toEqual(['* * * * * *', '*/5 * * * * *']);
  });
});
