import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as pause } from 'node:timers/promises';
import type { TestingModule } from '@nestjs/testing';
import { DataSource } from 'typeorm';
import {
  ClaimService,
  CronRun,
  DistributedCron,
  InvalidOptionsError,
  LeaseLostError,
  ReceiptService,
  SchedulerEvents,
  SchedulerService,
  type DistributedCronOptions,
  type DistributedSchedulerOptions,
  type SchedulerEvent,
} from '../../lib/index.js';
import { runJob } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { Wire } from '../support/wire.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.query('create table effects (job text, attempt integer, what text)');
});
afterEach(closeApps);
afterAll(() => database.drop());

type Handler = (run: CronRun, receipts: ReceiptService) => Promise<unknown>;

let jobs = 0;

/** An application with one job, which does this. */
async function appOf(
  handler: Handler,
  {
    cron = '0 * * * *',
    enabled = false,
    ...options
  }: Partial<DistributedCronOptions> & { cron?: string; enabled?: boolean } = {},
  scheduler: DistributedSchedulerOptions = {},
) {
  const name = `job-${++jobs}`;
  @Injectable()
  class Job {
    constructor(private readonly receipts: ReceiptService) {}

    @DistributedCron(cron, { name, backoff: 10, ...options })
    async run(run: CronRun) {
      await handler(run, this.receipts);
    }
  }
  const app = await startApp(database, { providers: [Job] }, { enabled, pollInterval: '200ms', ...scheduler });
  const told: SchedulerEvent['type'][] = [];
  app
    .get(SchedulerEvents)
    .subscribe((event) => void ('jobName' in event && event.jobName === name && told.push(event.type)));
  return { app, name, told };
}

const wound = (app: TestingModule) => nextEvent(app, 'run.woundUp');
const effectsOf = async (job: string) =>
  (await database.query<{ what: string }>('select what from effects where job = $1 order by what', [job])).map(
    ({ what }) => what,
  );
const write = ({ jobName, attempt }: CronRun, what: string) =>
  [`insert into effects values ($1, $2, $3)`, [jobName, attempt, what]] as const;
const rowOf = (app: TestingModule, { jobName, fireTime }: { jobName: string; fireTime: Date }) =>
  app.get(ClaimService).find({ jobName, fireTime });
const of = (work: Promise<unknown>) => work.catch((error: unknown) => error);

describe('run.checkpoint', () => {
  /** Goes over three pages, and fails at each of the first attempts after the page of that number. */
  const pages =
    (seen: { fireTime: Date; text: string }[]): Handler =>
    async (run) => {
      const from = (await run.checkpoint.get<{ next: number }>())?.next ?? 1;
      seen.push({ fireTime: run.fireTime, text: `attempt ${run.attempt} from ${from}` });
      for (let page = from; page <= 3; page++) {
        await run.checkpoint.save({ next: page + 1 });
        if (page === run.attempt) throw new Error(`page ${page}`);
      }
    };

  it('lets the next attempt resume where the last one was, and a replay of a dead run, too', async () => {
    const seen: { fireTime: Date; text: string }[] = [];
    const { app, name } = await appOf(pages(seen), {
      cron: '* * * * * *',
      maxAttempts: 2,
      overlap: 'forbid',
      enabled: true,
    });
    const { fireTime } = await nextEvent(app, 'run.dead');
    expect(await app.get(SchedulerService).explain(name, fireTime)).toMatchObject({
      checkpoint: 'Its handler has saved the checkpoint {"next": 3}; a replay of it resumes from there.',
    });
    await app.get(SchedulerService).pause(name, { by: 'test' });
    const done = nextEvent(app, 'run.completed', (event) => event.fireTime.getTime() === fireTime.getTime());
    await app.get(SchedulerService).replay(name, fireTime, { by: 'test' });
    await app.get(SchedulerService).resume(name, { by: 'test' });
    await done;
    expect(seen.filter((one) => one.fireTime.getTime() === fireTime.getTime()).map(({ text }) => text)).toEqual([
      'attempt 1 from 1',
      'attempt 2 from 2',
      // It fails after page 3, and the one after it finds nothing left to do.
      'attempt 3 from 3',
      'attempt 4 from 4',
    ]);
  });

  it('of a done run is there for people, and its replay begins anew', async () => {
    const seen: unknown[] = [];
    const { app, name } = await appOf(async (run) => {
      seen.push(await run.checkpoint.get());
      await run.checkpoint.save({ page: 7 });
    });
    const { fireTime } = await runJob(app, name);
    expect(await rowOf(app, { jobName: name, fireTime })).toMatchObject({ status: 'done', checkpoint: { page: 7 } });
    await app.get(SchedulerService).replay(name, fireTime, { by: 'test' });
    expect(await rowOf(app, { jobName: name, fireTime })).toMatchObject({ status: 'queued', checkpoint: null });
    expect(seen).toEqual([undefined]);
  });

  it('is refused once the run is another’s', async () => {
    let failed: unknown;
    const { app, name } = await appOf(async (run) => {
      await run.checkpoint.save(1);
      await database.query(`update job_runs set attempt = 2 where job_name = $1`, [run.jobName]);
      failed = await of(run.checkpoint.save(2));
    });
    const end = await runJob(app, name);
    expect([failed, end.type]).toEqual([expect.any(LeaseLostError), 'run.refused']);
    expect(await rowOf(app, end)).toMatchObject({ checkpoint: 1 });
  });
});

describe('run.transaction', () => {
  it('commits a step and its checkpoint together, or neither', async () => {
    const ends: unknown[] = [];
    const { app, name } = await appOf(async (run) => {
      ends.push(
        await run.transaction((manager) => manager.query(...write(run, 'a')).then(() => 41), {
          checkpoint: (result) => ({ next: result + 1 }),
        }),
      );
      ends.push(await run.checkpoint.get());
      const failing = run.transaction(
        async (manager) => {
          await manager.query(...write(run, 'b'));
          throw new Error('half-way');
        },
        { checkpoint: { next: 99 } },
      );
      ends.push(await of(failing), await run.checkpoint.get());
      ends.push(
        await of(run.transaction((manager) => manager.query(...write(run, 'c')), { checkpoint: () => undefined })),
        await run.checkpoint.get(),
      );
    });
    const end = await runJob(app, name);
    expect(ends).toEqual([
      41,
      { next: 42 },
      new Error('half-way'),
      { next: 42 },
      expect.objectContaining({ code: 'invalid-checkpoint' }),
      { next: 42 },
    ]);
    expect(await effectsOf(name)).toEqual(['a']);
    expect(await rowOf(app, end)).toMatchObject({ status: 'done', checkpoint: { next: 42 } });
  });

  it.each([
    ['nothing else', {}],
    ['a checkpoint', { checkpoint: 1 }],
    ['the completion', { complete: true }],
  ])('with %s commits nothing when the run was taken over meanwhile', async (_what, options) => {
    let failed: unknown;
    const { app, name } = await appOf(async (run) => {
      failed = await of(
        run.transaction(async (manager) => {
          await manager.query(...write(run, 'a'));
          await database.query(`update job_runs set attempt = 2, claimed_by = 'other' where job_name = $1`, [
            run.jobName,
          ]);
        }, options),
      );
    });
    const end = await runJob(app, name);
    expect([failed, end.type]).toEqual([expect.any(LeaseLostError), 'run.refused']);
    expect(await effectsOf(name)).toEqual([]);
    expect(await rowOf(app, end)).toMatchObject({ status: 'running', attempt: 2, checkpoint: null });
  });

  it('does not begin its work when the run is gone', async () => {
    let begun = false;
    const { app, name } = await appOf(async (run) => {
      await database.query(`update job_runs set attempt = 2 where job_name = $1`, [run.jobName]);
      await run.transaction(() => (begun = true));
    });
    await runJob(app, name);
    expect(begun).toBe(false);
  });

  it('completes the run with what it wrote: the handler may go on, and what it throws then changes nothing', async () => {
    let inside: unknown;
    let after: unknown;
    const { app, name, told } = await appOf(async (run) => {
      await run.transaction(
        async (manager) => {
          await manager.query(...write(run, 'a'));
          inside = await database.query(`select status from job_runs where job_name = $1`, [run.jobName]);
        },
        { complete: true, checkpoint: 'all' },
      );
      after = await database.query(`select status from job_runs where job_name = $1`, [run.jobName]);
      throw new Error('too late');
    });
    const woundUp = wound(app);
    expect(await runJob(app, name)).toMatchObject({ type: 'run.completed' });
    const { fireTime, error } = await woundUp;
    expect(error).toMatchObject({ message: 'too late' });
    expect([inside, after]).toEqual([[{ status: 'running' }], [{ status: 'done' }]]);
    expect(await effectsOf(name)).toEqual(['a']);
    expect(await rowOf(app, { jobName: name, fireTime })).toMatchObject({
      status: 'done',
      attempt: 1,
      error: null,
      checkpoint: 'all',
    });
    expect(told).toEqual(['run.claimed', 'run.started', 'run.completed', 'run.woundUp']);
  });

  it('that throws does not complete it', async () => {
    const { app, name } = await appOf(
      async (run) => {
        await run.transaction(
          async (manager) => {
            await manager.query(...write(run, `attempt ${run.attempt}`));
            if (run.attempt === 1) throw new Error('no');
          },
          { complete: true },
        );
      },
      { cron: '* * * * * *', overlap: 'forbid', enabled: true },
    );
    const { fireTime } = await nextEvent(app, 'run.failed');
    await nextEvent(app, 'run.completed', (event) => event.fireTime.getTime() === fireTime.getTime());
    expect(await rowOf(app, { jobName: name, fireTime })).toMatchObject({ status: 'done', attempt: 2 });
    expect(new Set(await effectsOf(name))).toEqual(new Set(['attempt 2']));
  });

  it('lets the next occurrence begin while the handler still winds up', async () => {
    const begun: number[] = [];
    let release: () => void = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const { app } = await appOf(
      async (run) => {
        begun.push(run.fireTime.getTime());
        await run.complete();
        if (begun.length === 1) await held;
      },
      { cron: '* * * * * *', overlap: 'forbid', enabled: true },
    );
    await nextEvent(app, 'run.completed', ({ fireTime }) => fireTime.getTime() > begun[0]!);
    expect(begun.length).toBeGreaterThan(1);
    const woundUp = nextEvent(app, 'run.woundUp', ({ fireTime }) => fireTime.getTime() === begun[0]);
    release();
    expect(await woundUp).toMatchObject({ error: null });
  });

  it('keeps its place in its process until the handler has wound up', async () => {
    const begun: number[] = [];
    let release: () => void = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const { app, told } = await appOf(
      async (run) => {
        begun.push(run.fireTime.getTime());
        await run.complete();
        if (begun.length === 1) await held;
      },
      { cron: '* * * * * *', overlap: 'forbid', enabled: true },
      { maxConcurrentRuns: 1 },
    );
    const { fireTime } = await nextEvent(app, 'run.completed');
    // Another instance would have it by then.
    while (
      (
        await database.query('select from generate_series(1, 1) where clock_timestamp() > $1::timestamptz', [
          new Date(fireTime.getTime() + 2_500),
        ])
      ).length === 0
    )
      await pause(50);
    expect(begun).toHaveLength(1);
    const next = nextEvent(app, 'run.started');
    release();
    await next;
    expect(told.indexOf('run.woundUp')).toBeLessThan(told.lastIndexOf('run.started'));
  });

  it('refuses what would wait for itself, be lost, or was misspelt', async () => {
    const ends: unknown[] = [];
    const { app, name } = await appOf(async (run, receipts) => {
      const nothing = () => {};
      ends.push(await of(run.transaction(() => run.transaction(nothing))));
      ends.push(await of(run.transaction(() => receipts.once('1', nothing))));
      ends.push(await of(receipts.once('1', () => run.transaction(nothing))));
      ends.push(await of(run.transaction(() => run.complete())));
      ends.push(await of(run.transaction(nothing, { complet: true } as object)));
      ends.push(await of(run.transaction(nothing, { checkpoint: undefined })));
      ends.push(await of(run.transaction(nothing, { in: {} as DataSource })));
      let go: () => void = () => {};
      const slow = receipts.once('2', () => new Promise<void>((resolve) => (go = resolve)));
      ends.push(
        await of(run.complete()),
        await of(run.transaction((manager) => manager.query(...write(run, 'a')), { complete: true })),
      );
      go();
      await slow;
    });
    expect(await runJob(app, name)).toMatchObject({ type: 'run.completed' });
    expect(ends).toEqual([
      expect.objectContaining({ code: 'nested-transaction' }),
      expect.objectContaining({ code: 'nested-transaction' }),
      expect.objectContaining({ code: 'nested-transaction' }),
      expect.objectContaining({ code: 'open-work' }),
      expect.any(InvalidOptionsError),
      expect.objectContaining({ code: 'invalid-checkpoint' }),
      expect.any(InvalidOptionsError),
      expect.objectContaining({ code: 'open-work' }),
      expect.objectContaining({ code: 'open-work' }),
    ]);
    expect((ends[1] as Error).message).toMatch(
      /^ReceiptService\.once\("1"\) was called inside the transaction of run\.transaction\./,
    );
    expect((ends[4] as Error).message).toContain('did you mean "complete"?');
    expect(await effectsOf(name)).toEqual([]);
  });

  describe('in a data source of the application’s', () => {
    let own: DataSource;
    let wire: Wire;
    beforeAll(async () => {
      wire = await Wire.to(database.url);
      own = await new DataSource({
        type: 'postgres',
        url: wire.url,
        poolSize: 2,
        poolErrorHandler: () => {},
      }).initialize();
      // A commit that takes its time.
      await database.query(`
        create function take_time() returns trigger language plpgsql as $$ begin perform pg_sleep(1); return null; end $$`);
      await database.query('create table slow (job text)');
      await database.query(
        'create constraint trigger slow_commit after insert on slow deferrable initially deferred for each row execute function take_time()',
      );
    });
    afterAll(async () => {
      await own.destroy();
      wire.end();
    });

    const committing = async () => {
      while (
        (
          await database.query(
            `select from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`,
          )
        ).length === 0
      )
        await pause(20);
    };

    it('commits there', async () => {
      const { app, name } = await appOf((run) =>
        run.transaction((manager) => manager.query(...write(run, 'a')), { in: own, complete: true }),
      );
      expect(await runJob(app, name)).toMatchObject({ type: 'run.completed' });
      expect(await effectsOf(name)).toEqual(['a']);
    });

    it('finds out that it has committed when the answer to the commit was lost', async () => {
      let result: unknown;
      const { app, name, told } = await appOf(async (run) => {
        result = await run.transaction(
          (manager) => manager.query('insert into slow values ($1)', [run.jobName]).then(() => 'kept'),
          { in: own, complete: true },
        );
      });
      const woundUp = wound(app);
      const ended = runJob(app, name);
      await committing();
      wire.cut();
      wire.mend();
      expect(await ended).toMatchObject({ type: 'run.completed' });
      await woundUp;
      expect(result).toBe('kept');
      expect(await database.query('select job from slow where job = $1', [name])).toHaveLength(1);
      expect(told).not.toContain('run.refused');
      expect(told).not.toContain('lease.lost');
    });

    it('finds out that it has not, and then the attempt has failed', async () => {
      const { app, name } = await appOf((run) =>
        run.transaction((manager) => manager.query('insert into slow values ($1)', [run.jobName]), {
          in: own,
          complete: true,
        }),
      );
      const ended = runJob(app, name);
      await committing();
      await database.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`,
      );
      const end = await ended;
      expect(end.type).toBe('run.failed');
      expect(await rowOf(app, end)).toMatchObject({ status: 'failed' });
      expect(await database.query('select job from slow where job = $1', [name])).toEqual([]);
    });

    it('is refused on another database, also on one that looks the same', async () => {
      const other = await createTestDatabase();
      const elsewhere = await new DataSource({ type: 'postgres', url: other.url }).initialize();
      const ends: unknown[] = [];
      const { app, name } = await appOf(async (run) => {
        ends.push(await of(run.transaction(() => {}, { in: elsewhere })));
        await other.query(
          'create table job_runs (job_name text, fire_time timestamptz, status text, attempt integer, claimed_by text, lease_until timestamptz)',
        );
        ends.push(await of(run.transaction(() => {}, { in: elsewhere })));
      });
      expect(await runJob(app, name)).toMatchObject({ type: 'run.completed' });
      expect(ends).toEqual([
        expect.objectContaining({ code: 'other-database' }),
        expect.objectContaining({ code: 'other-database' }),
      ]);
      await elsewhere.destroy();
      await other.drop();
    });
  });
});

describe('run.complete', () => {
  it('is the end of the run: nothing is written for it afterwards', async () => {
    const ends: unknown[] = [];
    const { app, name, told } = await appOf(async (run, receipts) => {
      await run.complete();
      ends.push(
        await of(run.complete()),
        await of(run.checkpoint.save(1)),
        await of(run.transaction(() => {})),
        await of(receipts.once('1', () => {})),
      );
    });
    const woundUp = wound(app);
    const end = await runJob(app, name);
    await woundUp;
    expect(ends).toEqual(Array(4).fill(expect.objectContaining({ code: 'after-run' })));
    expect((ends[1] as Error).message).toContain('CronRun.checkpoint.save was called after job-');
    expect((ends[1] as Error).message).toContain('had been completed');
    expect(told).toEqual(['run.claimed', 'run.started', 'run.completed', 'run.woundUp']);
    expect(await rowOf(app, end)).toMatchObject({ status: 'done', checkpoint: null });
  });

  it('says of a handler that was told to stop that it had finished', async () => {
    const { app, name } = await appOf(
      async (run) => {
        await app.get(SchedulerService).cancel(run.jobName, run.fireTime, { by: 'test' });
        while (!run.signal.aborted) await pause(20);
        await run.complete();
      },
      { cron: '* * * * * *', enabled: true, overlap: 'forbid' },
    );
    const { fireTime } = await nextEvent(app, 'run.completed');
    expect(await rowOf(app, { jobName: name, fireTime })).toMatchObject({ status: 'done' });
  });

  it('is refused once the run is another’s', async () => {
    let failed: unknown;
    const { app, name, told } = await appOf(async (run) => {
      await database.query(`update job_runs set attempt = 2, claimed_by = 'other' where job_name = $1`, [run.jobName]);
      failed = await of(run.complete());
    });
    const end = await runJob(app, name);
    expect([failed, end.type]).toEqual([expect.any(LeaseLostError), 'run.refused']);
    expect(await rowOf(app, end)).toMatchObject({ status: 'running', attempt: 2 });
    expect(told.filter((type) => type === 'run.completed')).toEqual([]);
  });
});
