import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { once } from 'node:events';
import {
  CancelledError,
  DistributedCron,
  DistributedCronHandler,
  JobRegistry,
  type CronRun,
  type DistributedCronOptions,
  type DistributedSchedulerOptions,
} from '../../lib/index.js';
import { Cancels, ManualRuns } from '../../lib/operations/run-requests.service.js';
import { PlannedTimes } from '../../lib/operations/planned-times.service.js';
import { Holds } from '../../lib/operations/holds.service.js';
import { History } from '../../lib/operations/history.service.js';
import { Inventory } from '../../lib/operations/inventory.service.js';
import { ScheduleEdits } from '../../lib/operations/schedule-edits.service.js';
import { eventually } from '../cluster/harness/eventually.js';
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

const OPS = { by: 'ops', reason: 'because' };
const SAID = { owner: 'billing', overlap: 'forbid', missed: 'once' } as const;

/** @param untilAborted its handler ends when it is told to */
function app(
  cron: string,
  options: DistributedCronOptions,
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

const NEVER_DUE = '0 3 29 2 *';
const EVERY_SECOND = '* * * * * *';
const runs = () =>
  database.query<{ status: string; reason: string | null; fire_time: Date }>(
    `select status, reason, fire_time from job_runs where job_name = 'export' order by fire_time`,
  );

/** The instance says with each look that it is there. */
async function nextLook(): Promise<void> {
  const looked = async () =>
    (await database.query<{ at: string }>('select alive_until::text as at from job_instances'))[0]!.at;
  const before = await looked();
  await eventually('the next look', async () => (await looked()) !== before);
}

async function until(fact: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 50_000; !fact(); ) {
    if (Date.now() > deadline) throw new Error('It did not come about within 50 s.');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe('a cancelled run whose process is gone', () => {
  it('ends as cancelled, which is told like every other end', async () => {
    const one = await app(NEVER_DUE, {});
    const cancelled = nextEvent(one, 'run.cancelled');
    await database.query(
      `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, started_at, lease_until, cancel_requested_at, cancel_reason)
       values ('export', date_trunc('second', now()), 'running', 'schedule', 'gone', 1, now(), now() - interval '1 second', now(), 'cancelled by ops')`,
    );
    expect(await cancelled).toMatchObject({
      jobName: 'export',
      attempt: 1,
      reason: 'cancelled by ops; the lease of gone ran out',
    });
    expect(await runs()).toMatchObject([{ status: 'cancelled' }]);
  });
});

describe('run now', () => {
  it('runs at once also in the last free slot: it is no backlog', async () => {
    const one = await app(NEVER_DUE, {}, { maxConcurrentRuns: 2 }, true);
    await one.get(ManualRuns).runNow('export', OPS);
    await until(() => seen.length === 1);
    await one.get(ManualRuns).runNow('export', OPS, { overlap: 'allow' });
    await until(() => seen.length === 2);
  });

  it('runs at once, with its own identity and data, once for a double click', async () => {
    const one = await app(NEVER_DUE, {}, {}, true);
    const started = nextEvent(one, 'run.started');
    const key = await one.get(ManualRuns).runNow('export', OPS, { data: { month: 3 } });
    await started;
    await expect(one.get(ManualRuns).runNow('export', OPS)).rejects.toThrow('under way');
    expect(seen).toMatchObject([{ trigger: 'manual', data: { month: 3 }, attempt: 1, fireTime: key.fireTime }]);
    expect(key.fireTime.getMilliseconds()).not.toBe(0);
    const cancelled = nextEvent(one, 'run.cancelled');
    await one.get(Cancels).cancel('export', key.fireTime, OPS);
    await cancelled;
  });

  it('B38: from two tabs on two replicas, with a replay in a third, never runs two at once', async () => {
    const [one, other] = await Promise.all([app(NEVER_DUE, {}, {}, true), app(NEVER_DUE, {}, {}, true)]);
    const most = () =>
      database.query<{ running: number }>(`select count(*)::integer as running from job_runs where status = 'running'`);
    await database.query(
      `insert into job_runs (job_name, fire_time, status, trigger, attempt, releases, next_attempt_at)
       values ('export', date_trunc('second', now() - interval '1 hour'), 'queued', 'schedule', 3, 3, now())`,
    );
    const clicks = await Promise.allSettled(
      [one, other, one, other].map((replica) => replica.get(ManualRuns).runNow('export', OPS)),
    );
    expect(clicks.filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(1);
    const open = async () => (await runs()).filter(({ status }) => status === 'running' || status === 'queued');
    for (let left = await open(); left.length > 0; left = await open()) {
      expect((await most())[0]!.running).toBeLessThanOrEqual(1);
      const running = left.find(({ status }) => status === 'running');
      // It may have ended between the two looks.
      if (running)
        await one
          .get(Cancels)
          .cancel('export', running.fire_time, OPS)
          .catch((error: unknown) => expect(error).toMatchObject({ code: 'job-state' }));
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect((await runs()).every(({ status }) => status === 'cancelled')).toBe(true);
    // One was replayed; a click came before it started, or found it under way.
    expect(seen.length).toBe(1 + clicks.filter(({ status }) => status === 'fulfilled').length);
  });

  it('says what is wrong with what was asked', async () => {
    const one = await app(NEVER_DUE, {});
    const manual = one.get(ManualRuns);
    await expect(manual.runNow('export', {} as never)).rejects.toThrow('SchedulerService.runNow: by');
    await expect(manual.runNow('export', OPS, { overlap: 'maybe' as never })).rejects.toThrow('overlap: expected');
    await expect(manual.runNow('export', OPS, { data: 1n })).rejects.toThrow(
      'data: expected something that JSON can hold',
    );
    await expect(manual.runNow('nobody', OPS)).rejects.toThrow('There is no job "nobody"');
    await expect(manual.runNow('no\0body', OPS)).rejects.toThrow('jobName: expected the name of a job');
    await expect(one.get(Cancels).cancel('export', 'today' as never, OPS)).rejects.toThrow('fireTime: expected a Date');
    await expect(one.get(Holds).pause('export', OPS, { until: new Date(NaN) })).rejects.toThrow(
      'until: expected a Date',
    );
    await expect(one.get(ScheduleEdits).skipNext('export', OPS, { count: 0 })).rejects.toThrow(
      'count: expected at least 1',
    );
  });
});

describe('a cancel', () => {
  it('tells the handler why, and the run ends as cancelled, without another attempt', async () => {
    const one = await app(NEVER_DUE, {}, {}, true);
    const started = nextEvent(one, 'run.started');
    const { fireTime } = await one.get(ManualRuns).runNow('export', OPS);
    await started;
    const cancelled = nextEvent(one, 'run.cancelled');
    expect(await one.get(Cancels).cancel('export', fireTime, OPS)).toBe('requested');
    expect(await cancelled).toMatchObject({ fireTime, attempt: 1, reason: 'cancelled by ops: because' });
    expect(seen[0]!.signal.reason).toBeInstanceOf(CancelledError);
    expect(await runs()).toMatchObject([{ status: 'cancelled', reason: 'cancelled by ops: because' }]);
    expect(seen).toHaveLength(1);
  });
});

describe('a flag', () => {
  it('turned off stops the next start, and by option the running one, too', async () => {
    const one = await app(NEVER_DUE, { flag: 'exports', flagOff: 'cancel' }, {}, true);
    const started = nextEvent(one, 'run.started');
    await one.get(ManualRuns).runNow('export', OPS);
    await started;
    const cancelled = nextEvent(one, 'run.cancelled');
    await one.get(Holds).setFlag('exports', false, OPS);
    expect((await cancelled).reason).toBe('flag off: exports');
    await expect(one.get(ManualRuns).runNow('export', OPS)).rejects.toThrow('its flag exports is off');
    expect(await one.get(Holds).flags()).toMatchObject([{ name: 'exports', on: false, jobs: ['export'] }]);
  });

  it('turned off lets a running one finish by default', async () => {
    const one = await app(NEVER_DUE, { flag: 'exports' }, {}, true);
    const started = nextEvent(one, 'run.started');
    const { fireTime } = await one.get(ManualRuns).runNow('export', OPS);
    await started;
    await one.get(Holds).setFlag('exports', false, OPS);
    // Two looks later its handler has still not been told anything.
    for (let looks = 0; looks < 2; looks++) await nextLook();
    expect(seen[0]!.signal.aborted).toBe(false);
    const cancelled = nextEvent(one, 'run.cancelled');
    await one.get(Cancels).cancel('export', fireTime, OPS);
    expect((await cancelled).reason).toBe('cancelled by ops: because');
  });

  it.each<[string, () => boolean | Promise<boolean>, string]>([
    ['says no', () => false, 'flag off: exports'],
    ['throws', () => Promise.reject(new Error('gone')), 'flag off: exports (its provider failed)'],
    ['says something else', () => 'yes' as never, 'flag off: exports'],
  ])('asks the provider of the application right before the claim; one that %s', async (_, isOn, reason) => {
    const one = await app(EVERY_SECOND, { flag: 'exports' }, { featureFlags: { isOn } });
    expect((await nextEvent(one, 'run.skipped')).reason).toBe(reason);
    expect(seen).toEqual([]);
  });

  it('whose provider hangs is off, and no other job waits for it more than once', async () => {
    let asked = 0;
    const isOn = () => {
      asked += 1;
      return new Promise<boolean>(() => {});
    };
    const one = await app(EVERY_SECOND, { flag: 'exports' }, { featureFlags: { isOn } });
    expect((await nextEvent(one, 'run.skipped')).reason).toBe('flag off: exports (its provider failed)');
    expect((await nextEvent(one, 'run.skipped')).reason).toBe('flag off: exports (its provider does not answer)');
    expect([asked, seen.length]).toEqual([1, 0]);
  });

  it('is shown as what the table and the provider say, with when that was asked', async () => {
    let on = true;
    const one = await app(NEVER_DUE, { flag: 'exports' }, { featureFlags: { isOn: () => on } });
    expect(await one.get(Holds).flags()).toMatchObject([
      { name: 'exports', on: true, onInTable: true, provider: { on: true, problem: null, askedAt: expect.any(Date) } },
    ]);
    on = false;
    await expect(one.get(ManualRuns).runNow('export', OPS)).rejects.toThrow('flag off: exports');
    const flag = { name: 'exports', on: false, onInTable: true, provider: { on: false } };
    expect(await one.get(Holds).flags()).toMatchObject([flag]);
    expect(await one.get(Inventory).inventory()).toMatchObject([{ flag, nextFireTime: null }]);
    const elsewhere = await app(NEVER_DUE, { flag: 'exports' }, {});
    expect(await elsewhere.get(Inventory).inventory()).toMatchObject([
      { flag: { on: true, onInTable: true, provider: null } },
    ]);
  });

  it('cancels a running one also by the word of the provider', async () => {
    let on = true;
    const one = await app(
      NEVER_DUE,
      { flag: 'exports', flagOff: 'cancel' },
      { featureFlags: { isOn: () => on } },
      true,
    );
    const started = nextEvent(one, 'run.started');
    await one.get(ManualRuns).runNow('export', OPS);
    await started;
    const cancelled = nextEvent(one, 'run.cancelled');
    on = false;
    expect((await cancelled).reason).toBe('flag off: exports');
    await expect(one.get(ManualRuns).runNow('export', OPS)).rejects.toThrow('flag off: exports');
  });
});

describe('an override', () => {
  it('is followed by every replica, survives a deploy, is told at boot, and is cleared', async () => {
    const [one, other] = await Promise.all([app(NEVER_DUE, {}), app(NEVER_DUE, {})]);
    const followed = nextEvent(other, 'job.scheduled');
    await one.get(ScheduleEdits).override('export', { cron: '0 4 29 2 *' }, OPS);
    expect(await followed).toMatchObject({ schedule: '"0 4 29 2 *" (UTC)', was: '"0 3 29 2 *" (UTC)' });
    await Promise.all([one.close(), other.close()]);

    const next = await app('0 5 29 2 *', {});
    expect(next.get(JobRegistry).get('export')!.definition.schedule.expression).toBe('0 4 29 2 *');
    const [entry] = await next.get(Inventory).inventory();
    expect(entry).toMatchObject({
      cron: '0 4 29 2 *',
      overridden: { by: 'ops', reason: 'because', declared: { cron: '0 5 29 2 *', timeZone: 'UTC' } },
    });
    const back = nextEvent(next, 'job.scheduled', ({ schedule }) => schedule === '"0 5 29 2 *" (UTC)');
    expect(await next.get(ScheduleEdits).clearOverride('export', OPS)).toBe(true);
    await back;
    expect((await next.get(Inventory).inventory())[0]).toMatchObject({ cron: '0 5 29 2 *', overridden: null });
    expect(
      (await next.get(History).actions({ jobName: 'export' })).map(({ action, actor }) => `${action} ${actor}`),
    ).toEqual(['clear-override ops', 'override ops']);
  });

  it('that cannot be read is refused', async () => {
    const one = await app(NEVER_DUE, { exclude: '2030-12-25' });
    const overrides = one.get(ScheduleEdits);
    await expect(overrides.override('export', { cron: '0 25 * * *' }, OPS)).rejects.toThrow('hour 25');
    await expect(overrides.override('export', { timeZone: 'Mars/Base' }, OPS)).rejects.toThrow('Mars/Base');
    await expect(overrides.override('export', {}, OPS)).rejects.toThrow(
      'expected a cron expression, a timeZone, or both',
    );
    await overrides.override('export', { timeZone: 'Europe/Berlin' }, OPS);
    expect((await one.get(Inventory).inventory())[0]).toMatchObject({
      timeZone: 'Europe/Berlin',
      calendar: '{"exclude":["2030-12-25"]}',
    });
    expect(await one.get(History).actions()).toHaveLength(1);
  });
});

describe('a job made at run time', () => {
  it('leaves out days, too; another calendar is another schedule, on every replica', async () => {
    @Injectable()
    class Reports {
      @DistributedCronHandler('report')
      report() {}
    }
    const replica = () => startApp(database, { providers: [Reports] }, { pollInterval: 200 });
    const [one, other] = await Promise.all([replica(), replica()]);
    const calendar = () => other.get(JobRegistry).get('acme')?.definition.schedule.calendar;
    const made = nextEvent(other, 'job.scheduled');
    await one.get(JobRegistry).add({ name: 'acme', cron: '0 4 * * *', handler: 'report', exclude: ['2030-12-25'] });
    await made;
    expect(calendar()).toBe('{"exclude":["2030-12-25"]}');
    const changed = nextEvent(other, 'job.scheduled');
    await one.get(JobRegistry).update('acme', { exclude: ['2030-12-26'] });
    await changed;
    expect(calendar()).toBe('{"exclude":["2030-12-26"]}');
    await expect(one.get(ScheduleEdits).override('acme', { cron: '0 5 * * *' }, OPS)).rejects.toThrow(
      'JobRegistry.update',
    );
  });
});

describe('skipping ahead', () => {
  it('leaves out the next occurrence, and runs the one after it', async () => {
    const one = await app(EVERY_SECOND, {});
    await nextEvent(one, 'run.completed');
    const [skipped] = await one.get(ScheduleEdits).skipNext('export', OPS);
    await nextEvent(one, 'run.completed', ({ fireTime }) => fireTime > skipped!);
    expect(await runs()).toContainEqual({ status: 'skipped', reason: 'skipped by ops: because', fire_time: skipped });
    expect(seen.map(({ fireTime }) => fireTime)).not.toContainEqual(skipped);
  });
});

describe('who looks', () => {
  it('sees each job with its owner and its answers, paused or not, and what was done', async () => {
    const one = await app(NEVER_DUE, { flag: 'exports' });
    await one.get(Holds).pause('export', OPS);
    expect(await one.get(Inventory).inventory()).toMatchObject([
      {
        name: 'export',
        state: 'active',
        ...SAID,
        implicit: [],
        declaredBy: 'Exports.export',
        nextFireTime: null,
        paused: { by: 'ops', reason: 'because', until: null },
        flag: { name: 'exports', on: true },
      },
    ]);
    expect(await one.get(Holds).resume('export', OPS)).toBe(true);
    const done = nextEvent(one, 'run.completed');
    const { fireTime } = await one.get(ManualRuns).runNow('export', OPS);
    await done;
    const [entry] = await one.get(Inventory).inventory();
    expect(entry).toMatchObject({
      paused: null,
      lastRun: { fireTime, status: 'done' },
      waiting: 0,
      running: 0,
      dead: 0,
    });
    expect(entry!.nextFireTime!.toISOString()).toContain('-02-29T03:00:00.000Z');
    expect((await one.get(History).actions({ limit: 2 })).map(({ action }) => action)).toEqual(['run-now', 'resume']);

    const explained = await one.get(PlannedTimes).explain('export', fireTime);
    expect(explained).toMatchObject({
      kind: 'done',
      starts: [{ attempt: 1, status: 'done' }],
      why: null,
      beside: [],
      skippedFor: [],
    });
    expect(explained.text).toContain('Runners started for it: 1');
    const none = await one.get(PlannedTimes).explain('export', new Date('2028-02-29T04:00:00Z'));
    expect(none).toMatchObject({
      kind: 'no occurrence',
      nearest: { before: new Date('2028-02-29T03:00:00Z'), after: new Date('2032-02-29T03:00:00Z') },
    });
    expect(await one.get(PlannedTimes).explain('export', new Date('2028-02-29T03:00:00Z'))).toMatchObject({
      kind: 'not due yet',
    });
    expect(await one.get(PlannedTimes).explain('export', new Date('2024-02-29T03:00:00Z'))).toMatchObject({
      kind: 'before the schedule',
    });
    expect(await one.get(PlannedTimes).explain('nobody', fireTime)).toMatchObject({
      kind: 'unknown job',
      nearest: null,
    });
  });

  it('sees jobs that nobody declares any more', async () => {
    await (await app(NEVER_DUE, {})).close();
    const other = await startApp(database, {});
    expect(await other.get(Inventory).inventory()).toMatchObject([
      { name: 'export', state: 'unregistered', nextFireTime: null },
    ]);
  });

  it('is told which jobs leave an answer implicit: by an error, when that is asked for', async () => {
    const start = (options: DistributedCronOptions, defaults = {}) =>
      app(
        NEVER_DUE,
        { owner: undefined, overlap: undefined, missed: undefined, ...options },
        { strict: true, defaults },
      );
    await expect(start({})).rejects.toThrow('Exports.export: job "export" leaves owner, overlap, missed implicit');
    await expect(start({ overlap: 'allow' })).rejects.toThrow('leaves owner, missed implicit');
    await start({ owner: 'billing' }, { overlap: 'forbid', missed: 'skip' });
  });
});
