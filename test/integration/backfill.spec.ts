import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  CronRun,
  DistributedCron,
  InvalidOptionsError,
  ReceiptService,
  SchedulerEvents,
  SchedulerService,
  type BackfillOptions,
  type BackfillProgress,
  type SchedulerEvent,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { insertRun } from '../support/run-rows.js';
import { closeApps, nextEvent, nextRun, startApp } from './support/apps.js';

const databases: TestDatabase[] = [];
let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
  databases.push(database);
});
afterEach(closeApps);
afterAll(() => Promise.all(databases.map((one) => one.drop())));

const HOUR = 3_600_000;
/** Half an hour from now on, every hour: nothing of it comes due while the tests run. */
const MINUTE = (new Date().getUTCMinutes() + 30) % 60;
const HOURLY = `${MINUTE} * * * *`;
const LAST = Math.floor((Date.now() - MINUTE * 60_000) / HOUR) * HOUR + MINUTE * 60_000;
const hoursAgo = (hours: number) => new Date(LAST - hours * HOUR);

interface Row {
  fire_time: Date;
  status: string;
  trigger: string;
  reason: string | null;
  attempt: number;
}
const rowsOf = (jobName: string) =>
  database.query<Row>(
    'select fire_time, status, trigger, reason, attempt from job_runs where job_name = $1 order by fire_time',
    [jobName],
  );

/** Something that runs when a test lets it. */
class Gate {
  private open!: () => void;
  private arrive!: () => void;
  readonly opened = new Promise<void>((resolve) => (this.open = resolve));
  readonly reached = new Promise<void>((resolve) => (this.arrive = resolve));

  pass(): Promise<void> {
    this.arrive();
    return this.opened;
  }

  release(): void {
    this.open();
  }
}

/** The progress of a backfill when a condition holds, looked for after each event of the application. */
async function progress(
  scheduler: SchedulerService,
  events: SchedulerEvents,
  id: string,
  condition: (one: BackfillProgress) => boolean,
): Promise<BackfillProgress> {
  for (const end = Date.now() + 50_000; Date.now() < end; ) {
    const one = (await scheduler.backfills()).find((backfill) => backfill.id === id)!;
    if (condition(one)) return one;
    await new Promise<void>((resolve) => {
      const subscription = events.subscribe(() => resolve());
      setTimeout(() => (subscription.unsubscribe(), resolve()), 50);
    });
  }
  throw new Error(`Not within 15 s: ${JSON.stringify(await scheduler.backfills())}`);
}

const handled: CronRun[] = [];
const gates = new Map<string, Gate>();
beforeEach(() => {
  handled.length = 0;
  gates.clear();
});

@Injectable()
class Jobs {
  constructor(private readonly receipts: ReceiptService) {}

  @DistributedCron(HOURLY, { name: 'report', maxAttempts: 1 })
  async report(run: CronRun) {
    handled.push(run);
    await gates.get(run.fireTime.toISOString())?.pass();
    await this.receipts.once('report', () => {});
  }

  @DistributedCron(HOURLY, { name: 'open', overlap: 'allow' })
  async open(run: CronRun) {
    handled.push(run);
    await gates.get(run.fireTime.toISOString())?.pass();
  }
}

async function start(options = {}) {
  const app = await startApp(database, { providers: [Jobs] }, options);
  return { app, scheduler: app.get(SchedulerService), events: app.get(SchedulerEvents) };
}

describe('SchedulerService.backfill', () => {
  it('runs what has not run from the first date to the last, oldest first, and tells handlers and listeners', async () => {
    const { app, scheduler, events } = await start();
    await insertRun(database, 'report', hoursAgo(2), 'done');
    await database.query(
      `insert into job_runs (job_name, fire_time, status, trigger, reason) values ('report', $1, 'skipped', 'schedule', 'paused')`,
      [hoursAgo(1)],
    );
    const heard: SchedulerEvent[] = [];
    events.of('backfill.started', 'backfill.finished').subscribe((event) => heard.push(event));
    const finished = nextEvent(app, 'backfill.finished');
    const plan = await scheduler.backfill('report', hoursAgo(4), hoursAgo(0), {
      by: 'ops',
      reason: 'mail server was down',
    });
    expect(plan).toEqual({
      id: expect.stringMatching(/^[\da-f-]{36}$/),
      jobName: 'report',
      from: hoursAgo(4),
      to: hoursAgo(0),
      maxConcurrent: 1,
      overlap: 'forbid',
      replay: false,
      occurrences: 5,
      willRun: 4,
      alreadyRan: 1,
      underWay: 0,
    });
    expect(await finished).toMatchObject({ id: plan.id, jobName: 'report', total: 5, leftAlone: 1, done: 4, dead: 0 });
    expect(handled.map(({ fireTime, trigger, attempt }) => ({ fireTime, trigger, attempt }))).toEqual(
      [4, 3, 1, 0].map((hours) => ({ fireTime: hoursAgo(hours), trigger: 'backfill', attempt: 1 })),
    );
    expect(heard).toMatchObject([
      { type: 'backfill.started', id: plan.id, occurrences: 5, willRun: 4 },
      { type: 'backfill.finished' },
    ]);
    expect(await scheduler.backfills()).toMatchObject([
      {
        id: plan.id,
        state: 'finished',
        total: 5,
        done: 4,
        leftAlone: 1,
        left: 0,
        queued: 0,
        running: 0,
        requestedBy: 'ops',
        reason: 'mail server was down',
        finishedAt: expect.any(Date),
      },
    ]);
    const [status] = await database.query(`select status, trigger, backfill_id from job_runs where fire_time = $1`, [
      hoursAgo(2),
    ]);
    expect(status).toEqual({ status: 'done', trigger: 'schedule', backfill_id: null });
  });

  it('of a renamed job runs nothing that ran under its old name, not even with replay', async () => {
    const { app, scheduler } = await start();
    const first = nextEvent(app, 'backfill.finished');
    await scheduler.backfill('report', hoursAgo(2), hoursAgo(1));
    expect(await first).toMatchObject({ done: 2 });
    await closeApps();
    handled.length = 0;

    @Injectable()
    class Renamed {
      @DistributedCron(HOURLY, { name: 'statement', previously: 'report' })
      statement(run: CronRun) {
        handled.push(run);
      }
    }
    const renamed = await startApp(database, { providers: [Renamed] });
    const second = nextEvent(renamed, 'backfill.finished');
    const plan = await renamed.get(SchedulerService).backfill('statement', hoursAgo(3), hoursAgo(1), { replay: true });
    expect(plan).toMatchObject({ occurrences: 3, willRun: 1, alreadyRan: 2, underWay: 0 });
    expect(await second).toMatchObject({ done: 1, leftAlone: 2 });
    expect(handled.map(({ fireTime }) => fireTime)).toEqual([hoursAgo(3)]);
  });

  it('says with dryRun what would happen, and writes nothing', async () => {
    const { scheduler } = await start();
    await insertRun(database, 'report', hoursAgo(2), 'done');
    const tables = () =>
      database.query(
        'select (select count(*) from job_runs) as runs, (select count(*) from job_backfills) as backfills, (select count(*) from pg_class) as tables',
      );
    const before = await tables();
    const longAgo = new Date('2001-01-01T00:00:00Z');
    expect(await scheduler.backfill('report', hoursAgo(4), hoursAgo(0), { dryRun: true })).toMatchObject({
      id: null,
      occurrences: 5,
      willRun: 4,
      alreadyRan: 1,
    });
    expect(await scheduler.backfill('report', hoursAgo(4), hoursAgo(0), { dryRun: true, replay: true })).toMatchObject({
      willRun: 5,
      alreadyRan: 1,
    });
    expect(
      await scheduler.backfill('report', longAgo, new Date(longAgo.getTime() + 3 * HOUR - 1), { dryRun: true }),
    ).toMatchObject({ willRun: 3 });
    expect(await tables()).toEqual(before);
    expect(handled).toEqual([]);
  });

  it('replays what ran: the handler runs again, and its receipts hold', async () => {
    const { app, scheduler } = await start();
    const written: string[] = [];
    app
      .get(SchedulerEvents)
      .of('receipt.written', 'receipt.duplicate')
      .subscribe(({ type, attempt }) => written.push(`${type} ${attempt}`));
    for (const replay of [false, true]) {
      const finished = nextEvent(app, 'backfill.finished');
      await scheduler.backfill('report', hoursAgo(0), hoursAgo(0), { replay });
      await finished;
    }
    expect(handled.map(({ attempt, trigger }) => ({ attempt, trigger }))).toEqual(
      [1, 2].map((attempt) => ({ attempt, trigger: 'backfill' })),
    );
    expect(handled[1]!.idempotencyKey('a')).toBe(handled[0]!.idempotencyKey('a'));
    expect(written).toEqual(['receipt.written 1', 'receipt.duplicate 2']);
    expect(await rowsOf('report')).toMatchObject([{ status: 'done', attempt: 2 }]);
  });

  it('keeps to maxConcurrent, and shows how far it is', async () => {
    const { app, scheduler, events } = await start();
    for (const hours of [5, 4]) gates.set(hoursAgo(hours).toISOString(), new Gate());
    const { id } = await scheduler.backfill('open', hoursAgo(5), hoursAgo(0), { maxConcurrent: 2 });
    await Promise.all([...gates.values()].map(({ reached }) => reached));
    expect(await progress(scheduler, events, id!, ({ running }) => running === 2)).toMatchObject({
      state: 'active',
      overlap: 'allow',
      maxConcurrent: 2,
      total: 6,
      queued: 0,
      done: 0,
      left: 4,
      notReached: 0,
    });
    gates.get(hoursAgo(4).toISOString())!.release();
    // One goes on through all that is left, the other holds its place.
    expect(await progress(scheduler, events, id!, ({ done }) => done === 5)).toMatchObject({
      state: 'active',
      running: 1,
      left: 0,
    });
    const finished = nextEvent(app, 'backfill.finished');
    gates.get(hoursAgo(5).toISOString())!.release();
    await finished;
  });

  it('is done by whoever knows the job, also when it is asked for where nothing is claimed', async () => {
    const { app } = await start({ pollInterval: 100 });
    const asking = await start({ enabled: false });
    const finished = nextEvent(app, 'backfill.finished');
    await asking.scheduler.backfill('open', hoursAgo(2), hoursAgo(0));
    expect(await finished).toMatchObject({ done: 3 });
  });
});

describe('a backfill that cannot be done', () => {
  const now = new Date();
  it.each([
    [
      'to in the future',
      hoursAgo(1),
      new Date(Date.now() + HOUR),
      {},
      /^Backfill of job "report": to \(.*\) is later than the database's clock/,
    ],
    ['from after to', hoursAgo(0), hoursAgo(1), {}, /exchange them/],
    ['a date that is none', new Date(NaN), now, {}, /from: expected a valid Date/],
    ['no fire time', new Date(LAST + 1), new Date(LAST + 1), {}, /has no fire time/],
    ['too many occurrences', hoursAgo(5), hoursAgo(0), { atMost: 5 }, /there are 6 occurrences .*atMost allows 5/],
    [
      'too many at a time',
      hoursAgo(1),
      hoursAgo(0),
      { maxConcurrent: 2 },
      /maxConcurrent: 2 at a time need overlap: 'allow', for the job forbids overlap/,
    ],
    ['a misspelt option', hoursAgo(1), hoursAgo(0), { dryrun: true }, /Unknown option "dryrun"; did you mean "dryRun"/],
    [
      'two who ask',
      hoursAgo(1),
      hoursAgo(0),
      { by: 'anna', requestedBy: 'bert' },
      /by, requestedBy: they are the same, and differ here/,
    ],
    [
      'options that are none',
      hoursAgo(1),
      hoursAgo(0),
      'all' as never,
      /expected an object with dryRun, .*, got "all"/,
    ],
  ])('%s is refused, and nothing is written', async (_what, from, to, options, message) => {
    const { scheduler } = await start();
    const refused = await scheduler
      .backfill('report', from, to, options as BackfillOptions)
      .catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(InvalidOptionsError);
    expect((refused as Error).message).toMatch(message);
    expect(await scheduler.backfills()).toEqual([]);
  });

  it('is told everything at once', async () => {
    const { scheduler } = await start();
    const refused = scheduler.backfill('report', hoursAgo(0), hoursAgo(1), { maxConcurrent: 0, reason: '' });
    await expect(refused).rejects.toMatchObject({
      problems: [/exchange them/, /maxConcurrent/, /reason/].map((problem) => expect.stringMatching(problem)),
    });
  });

  it('of a job that nobody knows', async () => {
    const { scheduler } = await start();
    await expect(scheduler.backfill('reprot', hoursAgo(1), hoursAgo(0))).rejects.toThrow(
      expect.objectContaining({ code: 'unknown-job' }),
    );
    await expect(scheduler.backfill('reprot', hoursAgo(1), hoursAgo(0))).rejects.toThrow(
      'There is no job "reprot"; did you mean "report"?',
    );
  });

  it('for want of partitions that its role may not make', async () => {
    const { scheduler } = await start();
    await database.query(
      `create function refuse() returns event_trigger language plpgsql as $$ begin raise 'permission denied for schema public'; end $$`,
    );
    await database.query('create event trigger refuse on ddl_command_start execute function refuse()');
    const day = new Date('2001-01-01T00:00:00Z');
    await expect(scheduler.backfill('report', day, new Date(day.getTime() + HOUR))).rejects.toThrow(
      /partitions of 2001-01 are missing and could not be made \(.*permission denied.*\): grant the role/,
    );
    await database.query('drop event trigger refuse');
    expect(await scheduler.backfills()).toEqual([]);
  });
});

describe('SchedulerService.cancelBackfill', () => {
  it('starts nothing more, lets go on what runs, and says who ended it and why', async () => {
    const { app, scheduler } = await start();
    const gate = new Gate();
    gates.set(hoursAgo(4).toISOString(), gate);
    const { id } = await scheduler.backfill('report', hoursAgo(4), hoursAgo(0));
    await gate.reached;
    const told = nextEvent(app, 'backfill.cancelled');
    const cancelled = await scheduler.cancelBackfill(id!, { by: 'ops', reason: 'wrong week' });
    expect(cancelled).toMatchObject({
      id,
      state: 'cancelled',
      running: 1,
      done: 0,
      left: 0,
      notReached: 4,
      cancelledBy: 'ops',
      cancelledReason: 'wrong week',
      cancelledAt: expect.any(Date),
    });
    expect(await told).toMatchObject({ id, by: 'ops', reason: 'wrong week', running: 1 });
    const ended = nextRun(app, 'report');
    gate.release();
    await ended;
    expect(await scheduler.cancelBackfill(id!)).toMatchObject({ state: 'cancelled', cancelledBy: 'ops', done: 1 });
    // A second one goes through, so that the first had its chance.
    const finished = nextEvent(app, 'backfill.finished');
    await scheduler.backfill('open', hoursAgo(2), hoursAgo(0));
    await finished;
    expect(await rowsOf('report')).toMatchObject([{ fire_time: hoursAgo(4), status: 'done' }]);
  });

  it('of something that is none, or with options that are none, is an error', async () => {
    const { scheduler } = await start();
    for (const id of ['4711', '00000000-0000-0000-0000-000000000000'])
      await expect(scheduler.cancelBackfill(id)).rejects.toThrow(expect.objectContaining({ code: 'unknown-backfill' }));
    await expect(scheduler.cancelBackfill('4711', { By: 'ops' } as never)).rejects.toThrow(InvalidOptionsError);
    await expect(scheduler.backfills(0)).rejects.toThrow(/limit: expected at least 1, got 0/);
  });
});

describe('a live occurrence', () => {
  it('that comes due while a backfill’s run of its job is in hand is never skipped, and goes before the rest of it', async () => {
    const blocking = new Gate();
    const started: string[] = [];
    @Injectable()
    class Live {
      @DistributedCron('*/2 * * * * *', { name: 'live', missed: 'skip', lateAfter: '1s' })
      async run(run: CronRun) {
        started.push(run.trigger);
        if (run.trigger === 'backfill') await blocking.pass();
      }
    }
    const app = await startApp(database, { providers: [Live] }, { pollInterval: 200 });
    const scheduler = app.get(SchedulerService);
    const since = new Date(Math.floor(Date.now() / 10_000) * 10_000 - 60_000);
    const { id } = await scheduler.backfill('live', since, new Date(since.getTime() + 4_000));
    await blocking.reached;
    const due: Date[] = [];
    await new Promise<void>((resolve) =>
      app
        .get(SchedulerEvents)
        .of('run.queued')
        .subscribe(({ trigger, fireTime }) => {
          if (trigger === 'schedule' && due.push(fireTime) === 3) resolve();
        }),
    );
    const last = nextEvent(app, 'run.completed', ({ fireTime }) => fireTime.getTime() === due[2]!.getTime());
    blocking.release();
    await last;
    // Whatever could begin beside the next one would have begun.
    await nextRun(app, 'live');
    // Its run took longer than there is time between two occurrences: from here on it waits.
    expect(await scheduler.backfills()).toMatchObject([{ id, done: 1, running: 0, state: 'active' }]);
    expect(await scheduler.cancelBackfill(id!)).toMatchObject({ done: 1 });
    const rows = await rowsOf('live');
    for (const fireTime of due) {
      expect(rows).toContainEqual({
        fire_time: fireTime,
        status: 'done',
        trigger: 'schedule',
        reason: null,
        attempt: 1,
      });
    }
    expect(started.filter((trigger) => trigger === 'backfill')).toHaveLength(1);
  });

  it('finds a slot, however many a backfill may run at a time', async () => {
    let most = 0;
    let running = 0;
    const blocking = new Gate();
    @Injectable()
    class Crowd {
      @DistributedCron(HOURLY, { name: 'crowd', overlap: 'allow' })
      async crowd() {
        most = Math.max(most, ++running);
        if (running === 3) void blocking.pass();
        await blocking.opened;
        running--;
      }

      @DistributedCron('* * * * * *', { name: 'punctual' })
      punctual() {}
    }
    const app = await startApp(database, { providers: [Crowd] }, { maxConcurrentRuns: 4, pollInterval: 100 });
    const { id } = await app.get(SchedulerService).backfill('crowd', hoursAgo(9), hoursAgo(0), { maxConcurrent: 10 });
    await blocking.reached;
    for (let times = 0; times < 2; times++) await nextRun(app, 'punctual');
    expect(await progress(app.get(SchedulerService), app.get(SchedulerEvents), id!, () => true)).toMatchObject({
      running: 3,
      queued: 7,
    });
    const finished = nextEvent(app, 'backfill.finished');
    blocking.release();
    await finished;
    expect(most).toBeLessThanOrEqual(3);
  });

  it('finds the only slot of an instance', async () => {
    @Injectable()
    class Single {
      @DistributedCron('*/2 * * * * *', { name: 'punctual' })
      punctual() {}

      @DistributedCron(HOURLY, { name: 'patient', overlap: 'allow' })
      patient() {}
    }
    const app = await startApp(database, { providers: [Single] }, { maxConcurrentRuns: 1, pollInterval: 100 });
    const finished = nextEvent(app, 'backfill.finished');
    await app.get(SchedulerService).backfill('patient', hoursAgo(3), hoursAgo(0), { maxConcurrent: 4 });
    expect(await finished).toMatchObject({ done: 4 });
    await nextRun(app, 'punctual');
  });
});

describe('SchedulerService.nextFireTimes', () => {
  it('says when a job runs next, from now by the database’s clock on', async () => {
    const { scheduler } = await start();
    expect(scheduler.nextFireTimes('report')).toEqual([1, 2, 3, 4, 5].map((hours) => hoursAgo(-hours)));
    expect(scheduler.nextFireTimes('report', { count: 1, from: hoursAgo(3) })).toEqual([hoursAgo(2)]);
  });

  it('refuses what it cannot answer', async () => {
    const { scheduler } = await start();
    expect(() => scheduler.nextFireTimes('reprot')).toThrow(expect.objectContaining({ code: 'unknown-job' }));
    expect(() => scheduler.nextFireTimes('report', { count: 0 })).toThrow(/count: expected at least 1, got 0/);
    expect(() => scheduler.nextFireTimes('report', { from: new Date(NaN), count: 1.5 })).toThrow(InvalidOptionsError);
    expect(() => scheduler.nextFireTimes('report', { cnt: 2 } as never)).toThrow(
      'nextFireTimes of job "report": Unknown option "cnt"; did you mean "count"?',
    );
    expect(() => scheduler.nextFireTimes('report', 3 as never)).toThrow('expected an object with count, from, got 3');
  });
});
