import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import {
  DeliveryRefusedError,
  DistributedCron,
  DistributedCronHandler,
  InvalidOptionsError,
  JobRegistry,
  SchedulerService,
  type CronRun,
  type DistributedCronOptions,
  type DistributedSchedulerOptions,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
let seen: CronRun[];
beforeEach(async () => {
  database = await createTestDatabase();
  seen = [];
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

const SAID = { owner: 'billing', overlap: 'forbid', missed: 'once', trigger: 'external' } as const;
const EVERY_SECOND = '* * * * * *';
const EVERY_MINUTE = '* * * * *';
const OPS = { by: 'ops' };

/** @param untilAborted its handler ends when it is told to */
function app(
  cron: string,
  options: DistributedCronOptions = {},
  scheduler: DistributedSchedulerOptions = {},
  untilAborted = false,
): Promise<TestingModule> {
  @Injectable()
  class Exports {
    @DistributedCron(cron, { name: 'export', ...SAID, ...options })
    async export(run: CronRun) {
      seen.push(run);
      if (untilAborted && !run.signal.aborted) await once(run.signal, 'abort');
    }
  }
  return startApp(database, { providers: [Exports] }, { pollInterval: 200, ...scheduler });
}

interface Row {
  status: string;
  trigger: string;
  reason: string | null;
  fire_time: Date;
  attempt: number;
  requested_by: string | null;
}
const rows = () => database.query<Row>(`select * from job_runs where job_name = 'export' order by fire_time`);
/** As if the job had been there for days, with nothing delivered. */
const longAgo = (job = 'export') =>
  database.query(
    `update job_schedule set effective_from = '2020-01-01', decided_until = '2020-01-01' where name = $1`,
    [job],
  );

/** The last whole minute by the database's clock, and so many before it. */
async function minutesAgo(minutes: number): Promise<Date> {
  const [row] = await database.query<{ at: Date }>(
    `select date_trunc('minute', clock_timestamp()) - $1 * interval '1 minute' as at`,
    [minutes],
  );
  return row!.at;
}

describe('an external job', () => {
  it('is never fired by the ticker, nor caught up, and runs what is delivered with its data', async () => {
    const one = await app(EVERY_SECOND, { lateAfter: '1s' });
    const completed = nextEvent(one, 'run.completed');
    const queued = nextEvent(one, 'run.queued');
    await database.query('select pg_sleep(3.5)');
    expect(await rows()).toEqual([]);
    const [clock] = await database.query<{ at: Date }>(`select date_trunc('second', clock_timestamp()) as at`);
    const delivery = await one
      .get(SchedulerService)
      .deliver('export', { fireTime: clock!.at, by: 'cronjob/export', data: { month: 11 } });
    expect(delivery).toEqual({
      jobName: 'export',
      fireTime: clock!.at,
      duplicate: false,
      status: expect.stringMatching(/^(queued|running|done)$/),
      reason: expect.anything(),
      text: expect.stringContaining('export of '),
    });
    expect(await queued).toMatchObject({ jobName: 'export', fireTime: clock!.at, trigger: 'external' });
    expect(await completed).toMatchObject({ fireTime: clock!.at, attempt: 1 });
    expect(seen).toMatchObject([{ trigger: 'external', data: { month: 11 }, fireTime: clock!.at }]);
    expect(await rows()).toMatchObject([
      { status: 'done', trigger: 'external', requested_by: 'cronjob/export', attempt: 1 },
    ]);
  });

  it('runs once however often, wherever and at the same time it is delivered', async () => {
    const apps = await Promise.all([app(EVERY_MINUTE), app(EVERY_MINUTE), app(EVERY_MINUTE)]);
    await longAgo();
    const fireTime = await minutesAgo(1);
    const deliveries = await Promise.all(
      [...apps, ...apps, ...apps].map((one) => one.get(SchedulerService).deliver('export', { fireTime, wait: '20s' })),
    );
    expect(deliveries.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
    expect(deliveries.every(({ status }) => status === 'done')).toBe(true);
    expect(seen).toHaveLength(1);
    const again = await apps[0]!.get(SchedulerService).deliver('export', { fireTime });
    expect(again).toMatchObject({
      duplicate: true,
      status: 'done',
      text: `export of ${fireTime.toISOString()} is done; this delivery changed nothing.`,
    });
    expect(seen).toHaveLength(1);
  });

  it('is started elsewhere where there is no room here', async () => {
    const disabled = await app(EVERY_MINUTE, {}, { enabled: false });
    await longAgo();
    const fireTime = await minutesAgo(0);
    expect(await disabled.get(SchedulerService).deliver('export', { fireTime })).toMatchObject({
      status: 'queued',
      reason: 'waits for its start',
      duplicate: false,
    });
    const other = await app(EVERY_MINUTE);
    expect(await other.get(SchedulerService).deliver('export', { fireTime, wait: '20s' })).toMatchObject({
      status: 'done',
      duplicate: true,
    });
  });

  it('means the time that is due now, when none is named', async () => {
    const one = await app(EVERY_SECOND);
    await longAgo();
    const delivery = await one.get(SchedulerService).deliver('export', { wait: '20s' });
    expect(delivery).toMatchObject({ status: 'done', duplicate: false });
    const nightly = await app('0 0 29 2 *', { name: 'leap' });
    await expect(nightly.get(SchedulerService).deliver('leap')).rejects.toMatchObject({
      problem: 'nothing is due',
      message: expect.stringMatching(/^Job "leap": the delivery is refused: nothing of it is due now; name the time/),
    });
  });

  it('waits for its time when it is delivered a little early', async () => {
    const one = await app(EVERY_SECOND);
    const [clock] = await database.query<{ at: Date }>(
      `select date_trunc('second', clock_timestamp()) + interval '3 seconds' as at`,
    );
    const early = await one.get(SchedulerService).deliver('export', { fireTime: clock!.at });
    expect(early).toMatchObject({ status: 'queued', reason: 'waits for its start' });
    await nextEvent(one, 'run.completed');
    const [row] = await database.query<{ early: boolean }>(`select started_at < fire_time as early from job_runs`);
    expect(row).toEqual({ early: false });
  });

  it.each([
    [
      'off the grid',
      '2026-11-30T10:00:30Z',
      /^Job "export": the delivery is refused: "\* \* \* \* \*" \(UTC\) has no fire time at 2026-11-30T10:00:30.000Z; the nearest are 2026-11-30T10:00:00.000Z and 2026-11-30T10:01:00.000Z\.$/,
    ],
    ['too early', '2099-01-01T00:00:00Z', /is still .* away by the database's clock/],
    ['before the schedule', '2020-01-01T00:00:00Z', /its schedule holds from/],
  ])('refuses what is %s, and writes nothing', async (problem, fireTime, message) => {
    const one = await app(EVERY_MINUTE);
    const refused = one.get(SchedulerService).deliver('export', { fireTime: new Date(fireTime) });
    await expect(refused).rejects.toThrow(DeliveryRefusedError);
    await expect(refused).rejects.toMatchObject({ problem, message: expect.stringMatching(message) });
    expect(await rows()).toEqual([]);
  });

  it('refuses an unknown job, and options that cannot be used', async () => {
    const { deliver } = bound(await app(EVERY_MINUTE));
    await expect(deliver('exprot')).rejects.toThrow(expect.objectContaining({ code: 'unknown-job' }));
    await expect(deliver('export', { firetime: new Date() } as never)).rejects.toThrow('did you mean "fireTime"?');
    await expect(deliver('export', { wait: '2h' })).rejects.toThrow(InvalidOptionsError);
    await expect(deliver('export', { fireTime: '2026-11-30T00:00:00Z' as never })).rejects.toThrow(
      'fireTime: expected a Date',
    );
  });
});

describe('what is delivered late', () => {
  it('runs within the window, is recorded when it is too old, and gives way to a newer one', async () => {
    const one = await app(EVERY_MINUTE, { catchUpWindow: '1h' });
    const { deliver } = bound(one);
    await longAgo();
    expect(await deliver('export', { fireTime: await minutesAgo(50), wait: '20s' })).toMatchObject({ status: 'done' });
    expect(await deliver('export', { fireTime: await minutesAgo(55) })).toMatchObject({
      status: 'skipped',
      reason: 'missed: superseded by a newer one',
      duplicate: false,
    });
    const tooOld = await minutesAgo(61);
    expect(await deliver('export', { fireTime: tooOld })).toMatchObject({
      status: 'skipped',
      reason: 'missed: too old',
      duplicate: false,
    });
    expect(await deliver('export', { fireTime: tooOld })).toMatchObject({
      status: 'skipped',
      reason: 'missed: too old',
      duplicate: true,
    });
    expect(await rows()).toMatchObject([
      { trigger: 'external', status: 'skipped' },
      { status: 'skipped' },
      { status: 'done' },
    ]);
    const [{ behind } = { behind: null }] = await database.query<{ behind: boolean }>(
      `select decided_until < now() - interval '3 hours' as behind from job_schedule`,
    );
    expect(behind).toBe(false);
  });

  it.each([
    ['skip', 'skipped'],
    ['all', 'done'],
  ] as const)('missed: %s', async (missed, status) => {
    const { deliver } = bound(await app(EVERY_MINUTE, { missed }));
    await longAgo();
    await deliver('export', { fireTime: await minutesAgo(0), wait: '20s' });
    expect(await deliver('export', { fireTime: await minutesAgo(10), wait: '20s' })).toMatchObject({ status });
  });
});

describe('what is held back', () => {
  it.each<[string, (scheduler: SchedulerService) => Promise<unknown>, string]>([
    ['paused', (scheduler) => scheduler.pause('export', OPS), 'paused'],
    ['disabled', (scheduler) => scheduler.disable('export', OPS), 'disabled'],
    ['turned off', (scheduler) => scheduler.setFlag('exports', false, OPS), 'flag off: exports'],
  ])('is recorded when it is %s', async (_, hold, reason) => {
    const one = await app(EVERY_MINUTE, { flag: 'exports' });
    await longAgo();
    await hold(one.get(SchedulerService));
    const skipped = nextEvent(one, 'run.skipped');
    expect(await bound(one).deliver('export', { fireTime: await minutesAgo(0) })).toMatchObject({
      status: 'skipped',
      reason,
      duplicate: false,
    });
    expect(await skipped).toMatchObject({ reason });
    expect(await rows()).toMatchObject([{ trigger: 'external', reason }]);
    expect(seen).toEqual([]);
  });

  it('asks the provider of the application about its flag, too', async () => {
    const one = await app(EVERY_MINUTE, { flag: 'exports' }, { featureFlags: { isOn: () => false } });
    await longAgo();
    expect(await bound(one).deliver('export', { fireTime: await minutesAgo(0) })).toMatchObject({
      status: 'skipped',
      reason: 'flag off: exports',
    });
  });
});

describe('overlap', () => {
  it.each([
    ['forbid', { status: 'skipped', reason: 'overlap' }],
    ['queue', { status: 'queued', reason: 'waits for a run before it' }],
  ] as const)('%s holds for deliveries, too', async (overlap, expected) => {
    const one = await app(EVERY_SECOND, { overlap }, { shutdownTimeout: '1s' }, true);
    await longAgo();
    const started = nextEvent(one, 'run.started');
    await bound(one).deliver('export');
    await started;
    const [clock] = await database.query<{ at: Date }>(
      `select max(fire_time) + interval '1 second' as at from job_runs`,
    );
    const at = new Date(clock!.at);
    await database.query(`select pg_sleep(greatest(0, extract(epoch from $1::timestamptz - clock_timestamp())))`, [
      at.toISOString(),
    ]);
    expect(await bound(one).deliver('export', { fireTime: at })).toMatchObject(expected);
    expect(seen).toHaveLength(1);
  });

  it('replace: the run under way is told to stop, and the delivered one follows', async () => {
    const one = await app(EVERY_SECOND, { overlap: 'replace' }, { shutdownTimeout: '1s' }, true);
    await longAgo();
    const started = nextEvent(one, 'run.started');
    const { fireTime } = await bound(one).deliver('export');
    await started;
    const later = new Date(fireTime.getTime() + 1_000);
    await database.query(`select pg_sleep(greatest(0, extract(epoch from $1::timestamptz - clock_timestamp())))`, [
      later.toISOString(),
    ]);
    const next = nextEvent(one, 'run.started', (event) => event.fireTime.getTime() === later.getTime());
    await bound(one).deliver('export', { fireTime: later });
    await next;
    expect(await rows()).toMatchObject([
      { status: 'cancelled', reason: 'replaced by a newer one' },
      { status: 'running' },
    ]);
  });
});

describe('who fires a job', () => {
  it('a job of the schedule may be delivered, too: whoever is first', async () => {
    const one = await app(EVERY_SECOND, { trigger: 'schedule', overlap: 'allow' });
    const { fireTime } = await nextEvent(one, 'run.completed');
    expect(await bound(one).deliver('export', { fireTime })).toMatchObject({ duplicate: true, status: 'done' });
    expect(seen.filter((run) => run.fireTime.getTime() === fireTime.getTime())).toHaveLength(1);
  });

  it('falls back on its schedule where it is told to, once with a delivery that comes after all', async () => {
    const one = await app(EVERY_SECOND, { fallback: '2s', overlap: 'allow' });
    const { fireTime, delayMs } = await nextEvent(one, 'run.started');
    expect(delayMs).toBeGreaterThanOrEqual(2_000);
    expect(await bound(one).deliver('export', { fireTime, wait: '20s' })).toMatchObject({
      duplicate: true,
      status: 'done',
    });
    expect((await rows())[0]).toMatchObject({ trigger: 'schedule' });
  });

  it('changes with a deploy: no past is made up, nothing runs twice, and an edit records what was left', async () => {
    const before = await app(EVERY_SECOND, { trigger: 'schedule', overlap: 'allow' });
    await nextEvent(before, 'run.completed');
    await closeApps();
    const external = await app(EVERY_SECOND, { overlap: 'allow' });
    const [last] = await database.query<{ fire_time: Date }>(
      `select max(fire_time) as fire_time from job_runs where status = 'done'`,
    );
    expect(await bound(external).deliver('export', { fireTime: last!.fire_time })).toMatchObject({
      duplicate: true,
      status: 'done',
    });
    const ran = seen.length;
    await database.query('select pg_sleep(2)');
    expect(seen).toHaveLength(ran);
    const delivered = await bound(external).deliver('export', { wait: '20s' });
    expect(delivered).toMatchObject({ status: 'done', duplicate: false });
    await closeApps();
    const after = await app(EVERY_SECOND, { trigger: 'schedule', overlap: 'allow' });
    await nextEvent(after, 'run.completed');
    const fireTimes = seen.map((run) => run.fireTime.getTime());
    expect(new Set(fireTimes).size).toBe(fireTimes.length);
    const left = (await rows()).filter(({ status }) => status !== 'done' && status !== 'running');
    expect(left.every(({ status, reason }) => status === 'skipped' && reason === 'superseded by an edit')).toBe(true);
  });

  it('goes on under another name: a delivery to the old one is one to the new one', async () => {
    await app(EVERY_MINUTE);
    await longAgo();
    await closeApps();
    const renamed = await app(EVERY_MINUTE, { name: 'exports', previously: 'export' });
    const fireTime = await minutesAgo(1);
    expect(await bound(renamed).deliver('export', { fireTime, wait: '20s' })).toMatchObject({
      jobName: 'exports',
      status: 'done',
      duplicate: false,
    });
    expect(await bound(renamed).deliver('exports', { fireTime })).toMatchObject({
      jobName: 'exports',
      duplicate: true,
    });
    expect(seen).toHaveLength(1);
  });

  it('is an option of jobs made at run time, too', async () => {
    @Injectable()
    class Handlers {
      @DistributedCronHandler('report')
      report(run: CronRun) {
        seen.push(run);
      }
    }
    const one = await startApp(database, { providers: [Handlers] }, { pollInterval: 200 });
    await one.get(JobRegistry).add({ name: 'tenant', cron: EVERY_SECOND, handler: 'report', data: 7, ...SAID });
    await longAgo('tenant');
    expect(await bound(one).deliver('tenant', { wait: '20s' })).toMatchObject({ status: 'done' });
    expect(seen).toMatchObject([{ data: 7, trigger: 'external' }]);
  });

  it('is refused when it is misspelt, and so is a fallback without it', async () => {
    await expect(app(EVERY_MINUTE, { trigger: 'extern' as never })).rejects.toThrow(
      'trigger: expected "schedule" or "external", got "extern"',
    );
    await expect(app(EVERY_MINUTE, { trigger: 'schedule', fallback: '5m' })).rejects.toThrow(InvalidOptionsError);
  });
});

it('explain says of what nobody delivered that it waits for that', async () => {
  const one = await app(EVERY_MINUTE);
  await longAgo();
  expect((await one.get(SchedulerService).explain('export', await minutesAgo(3))).why).toBe(
    'It has no row: its trigger is external, and nobody has delivered it.',
  );
});

function bound(one: TestingModule): Pick<SchedulerService, 'deliver'> {
  const scheduler = one.get(SchedulerService);
  return { deliver: (...args) => scheduler.deliver(...args) };
}
