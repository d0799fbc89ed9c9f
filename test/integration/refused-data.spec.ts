import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable, Module } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import {
  ClaimService,
  DistributedCron,
  DistributedCronPage,
  FanOutService,
  PAGE_QUEUE,
  ReceiptService,
  SchedulerEvents,
  SchedulerService,
  type EventOf,
  type SchedulerEvent,
} from '../../lib/index.js';
import { InMemoryPageQueue } from '../../lib/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { closeApps, nextEvent, nextRun, startApp } from './support/apps.js';

const databases: TestDatabase[] = [];
afterEach(closeApps);
afterAll(() => Promise.all(databases.map((one) => one.drop())));

const jobs = ['a', 'bad', 'c', 'd'];

@Injectable()
class Jobs {
  @DistributedCron('* * * * * *', { name: 'a', lateAfter: '1h' })
  a() {}
  @DistributedCron('* * * * * *', { name: 'bad', lateAfter: '1h' })
  bad() {}
  @DistributedCron('* * * * * *', { name: 'c', lateAfter: '1h' })
  c() {}
  @DistributedCron('* * * * * *', { name: 'd', lateAfter: '1h' })
  d() {}
}

async function start(): Promise<{
  app: TestingModule;
  database: TestDatabase;
  refused: EventOf<'data.refused'>[];
  events: SchedulerEvent[];
}> {
  const database = await createTestDatabase();
  databases.push(database);
  const app = await startApp(database, { providers: [Jobs] }, { pollInterval: '200ms' });
  const refused: EventOf<'data.refused'>[] = [];
  const events: SchedulerEvent[] = [];
  app.get(SchedulerEvents).subscribe((event) => {
    events.push(event);
    if (event.type === 'data.refused') refused.push(event);
  });
  await Promise.all(jobs.map((name) => nextRun(app, name)));
  return { app, database, refused, events };
}

/** Each of the others runs twice more. */
async function othersGoOn(app: TestingModule): Promise<void> {
  for (let round = 0; round < 2; round++) await Promise.all(['a', 'c', 'd'].map((name) => nextRun(app, name)));
}

describe('data that the database refuses stops one job', () => {
  it('whose row in job_schedule can’t be read: the others are claimed, it is named once, and goes on when it is mended', async () => {
    const { app, database, refused, events } = await start();
    await database.query(`update job_schedule set earlier_holds = '{"since": "long ago"}' where name = 'bad'`);
    await nextEvent(app, 'data.refused');
    await othersGoOn(app);
    expect(refused).toMatchObject([
      {
        jobName: 'bad',
        step: 'claim',
        error: { message: expect.stringContaining('cannot extract elements from an object') },
      },
    ]);
    expect(events.filter(({ type }) => type === 'loop.failed')).toEqual([]);
    await database.query(`update job_schedule set earlier_holds = '[]' where name = 'bad'`);
    await nextRun(app, 'bad');
    expect(refused).toHaveLength(1);
  });

  it('of which a run has reached the bound of its attempts: the others start, it is named once', async () => {
    const { database, refused, events } = await start();
    await closeApps();
    await database.query(
      `insert into job_runs (job_name, fire_time, status, trigger, attempt, releases, next_attempt_at)
       select name, date_trunc('second', now()) - interval '1.5 seconds', 'queued', 'manual', case name when 'bad' then 1000000 else 0 end, case name when 'bad' then 999999 else 0 end, now()
       from   unnest($1::text[]) name`,
      [jobs],
    );
    const again = await startApp(database, { providers: [Jobs] }, { pollInterval: '200ms' });
    again.get(SchedulerEvents).subscribe((event) => {
      events.push(event);
      if (event.type === 'data.refused') refused.push(event);
    });
    await until(async () => {
      const rows = await database.query(
        `select job_name, status from job_runs where trigger = 'manual' order by job_name`,
      );
      expect(rows).toEqual(jobs.map((name) => ({ job_name: name, status: name === 'bad' ? 'queued' : 'done' })));
    });
    await othersGoOn(again);
    expect(refused).toMatchObject([{ jobName: 'bad', step: 'start' }]);
  });

  it('of which an expired run can’t be written: the others are reaped, it is named once', async () => {
    const { app, database, refused, events } = await start();
    await database.query(
      `create function refuse() returns trigger language plpgsql as $$
       begin
         if new.job_name = 'bad' and new.status = 'orphaned' then raise exception 'no orphans of this job here'; end if;
         return new;
       end $$`,
    );
    await database.query('create trigger refuse before update on job_runs for each row execute function refuse()');
    await database.query(
      `insert into job_runs (job_name, fire_time, status, trigger, attempt, claimed_by, lease_until)
       select name, date_trunc('second', now()) - interval '1.5 seconds', 'running', 'manual', 1, 'gone', now() - interval '1 second' from unnest($1::text[]) name`,
      [jobs],
    );
    await until(async () => {
      const rows = await database.query(
        `select job_name, status from job_runs where trigger = 'manual' order by job_name`,
      );
      expect(rows).toEqual(jobs.map((name) => ({ job_name: name, status: name === 'bad' ? 'running' : 'done' })));
    });
    await othersGoOn(app);
    expect(refused).toMatchObject([
      { jobName: 'bad', step: 'reap', error: { message: 'no orphans of this job here' } },
    ]);
    expect(events.filter(({ type }) => type === 'loop.failed')).toEqual([]);
  });
});

describe('an end that the database refuses as it is', () => {
  const url = new URL(process.env.TEST_DATABASE_URL!);
  const name = `latin_${Math.random().toString(36).slice(2)}`;
  let server: TestDatabase;
  beforeAll(async () => {
    server = await createTestDatabase();
    databases.push(server);
    await server.query(`create database ${name} encoding 'LATIN1' locale 'C' template template0`);
    url.pathname = `/${name}`;
  });
  afterAll(async () => {
    await closeApps();
    await server.query(`drop database ${name} with (force)`);
  });

  it('is written at once in a form that the database accepts: its encoding lacks 💥', async () => {
    @Injectable()
    class Failing {
      @DistributedCron('* * * * * *', { name: 'loud', maxAttempts: 1, lateAfter: '1h' })
      loud() {
        throw new Error('Grüße: it went 💥 \0');
      }
      @DistributedCron('* * * * * *', { name: 'quiet', lateAfter: '1h' })
      quiet() {}
    }
    const app = await startApp({ url: url.href } as TestDatabase, { providers: [Failing] }, { pollInterval: '200ms' });
    const failed: SchedulerEvent[] = [];
    app
      .get(SchedulerEvents)
      .of('loop.failed', 'data.refused')
      .subscribe((event) => failed.push(event));
    const dead = await nextEvent(app, 'run.dead', ({ jobName }) => jobName === 'loud');
    await nextRun(app, 'quiet');
    await nextEvent(app, 'run.dead', ({ jobName, fireTime }) => jobName === 'loud' && fireTime > dead.fireTime);
    expect(failed).toEqual([]);
  });

  it('so are the answers and failures of effects: each happens once, and its run goes on', async () => {
    const calls: string[] = [];
    @Injectable()
    class Paying {
      constructor(private readonly receipts: ReceiptService) {}
      @DistributedCron('0 0 1 1 *', { name: 'paying', maxAttempts: 1 })
      async pay() {
        await this.receipts.once('inside', () => {
          calls.push('inside');
          return 'done 💥';
        });
        const call = (effect: string, answer: () => string) =>
          this.receipts.onceExternal('outside', () => (calls.push(effect), answer()), { effect, inDoubt: 'park' });
        await call('answered', () => 'paid 💥');
        await call('understood', () => 'bezahlt: ü');
        await call('failed', () => {
          throw new Error('declined 💥');
        }).catch(() => undefined);
      }
    }
    const app = await startApp({ url: url.href } as TestDatabase, { providers: [Paying] }, { pollInterval: '200ms' });
    const done = nextRun(app, 'paying');
    const { fireTime } = await app.get(SchedulerService).runNow('paying', { by: 'anna' });
    await done;
    expect(calls).toEqual(['inside', 'answered', 'understood', 'failed']);
    const receipts = await app.get(ClaimService).receiptsOf({ jobName: 'paying', fireTime });
    expect(
      receipts.map(({ effect, state, result, error }) => ({ effect, state, result, message: error?.message ?? null })),
    ).toEqual([
      { effect: 'default', state: 'done', result: null, message: null },
      { effect: 'answered', state: 'done', result: null, message: null },
      { effect: 'understood', state: 'done', result: 'bezahlt: ü', message: null },
      { effect: 'failed', state: 'in_doubt', result: null, message: 'declined \\u{1f4a5}' },
    ]);
  });

  it('so is the end of a page', async () => {
    @Module({ providers: [{ provide: PAGE_QUEUE, useValue: new InMemoryPageQueue() }], exports: [PAGE_QUEUE] })
    class Queue {}
    @Injectable()
    class Paged {
      constructor(private readonly pages: FanOutService) {}
      @DistributedCron('0 0 1 1 *', { name: 'paged' })
      async publish() {
        await this.pages.publish(['one']);
      }
      @DistributedCronPage('paged', { maxAttempts: 1 })
      work() {
        throw new Error('torn 💥');
      }
    }
    const app = await startApp(
      { url: url.href } as TestDatabase,
      { imports: [Queue], providers: [Paged] },
      { pollInterval: '200ms' },
    );
    const dead = nextEvent(app, 'page.dead');
    await app.get(SchedulerService).runNow('paged', { by: 'anna' });
    await dead;
    expect(await app.get(SchedulerService).deadPages({ jobName: 'paged' })).toMatchObject({
      pages: [{ error: { message: 'torn \\u{1f4a5}' } }],
    });
  });
});
