import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import {
  DistributedCron,
  DistributedCronHandler,
  InvalidOptionsError,
  JobRegistry,
  type CronRun,
} from '../../lib/index.js';
import { eventually } from '../cluster/harness/eventually.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, nextRun, startApp } from './support/apps.js';

let database: TestDatabase;
let seen: { job: string; data: unknown; by: string }[];
beforeEach(async () => {
  database = await createTestDatabase();
  seen = [];
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

function reportsOf(by: string) {
  @Injectable()
  class Reports {
    @DistributedCron('0 3 * * *', { name: 'declared' })
    declared() {}

    @DistributedCronHandler('report')
    report(run: CronRun) {
      seen.push({ job: run.jobName, data: run.data, by });
    }
  }
  return Reports;
}

const replica = (by: string): Promise<TestingModule> =>
  startApp(database, { providers: [reportsOf(by)] }, { pollInterval: 200 });
const EVERY_SECOND = { cron: '* * * * * *', handler: 'report' };

describe('a job made at run time', () => {
  it('runs on every replica that has its handler, with its data, and never before it was made', async () => {
    const [one, other] = await Promise.all([replica('one'), replica('other')]);
    const scheduled = nextEvent(other, 'job.scheduled', ({ jobName }) => jobName === 'acme');
    await one.get(JobRegistry).add({ name: 'acme', ...EVERY_SECOND, data: { tenant: 'acme' } });
    await scheduled;
    await one.close();
    await nextRun(other, 'acme');
    expect(seen.at(-1)).toEqual({ job: 'acme', data: { tenant: 'acme' }, by: 'other' });
    expect(other.get(JobRegistry).names()).toEqual(['acme', 'declared']);
    const [row] = await database.query<{ early: boolean }>(
      `select min(fire_time) < (select effective_from from job_schedule where name = 'acme') as early from job_runs where job_name = 'acme'`,
    );
    expect(row).toEqual({ early: false });
  });

  it('is there after a restart of all replicas', async () => {
    const first = await replica('first');
    await first
      .get(JobRegistry)
      .add({ name: 'acme', ...EVERY_SECOND, timeZone: 'Europe/Berlin', missed: 'all', lease: '30s' });
    await first.close();
    const second = await replica('second');
    await nextRun(second, 'acme');
    expect(second.get(JobRegistry).get('acme')!.definition).toMatchObject({
      missed: 'all',
      leaseMs: 30_000,
      schedule: { timeZone: 'Europe/Berlin' },
    });
  });

  it('keeps the zone it was made with, whatever the default is elsewhere', async () => {
    const first = await startApp(
      database,
      { providers: [reportsOf('first')] },
      { defaults: { timeZone: 'Asia/Tokyo' } },
    );
    await first.get(JobRegistry).add({ name: 'acme', cron: '0 4 * * *', handler: 'report' });
    const second = (await replica('second')).get(JobRegistry);
    expect(second.get('acme')!.definition.schedule.timeZone).toBe('Asia/Tokyo');
    await second.update('acme', { data: 1 });
    expect(await database.query(`select time_zone from job_schedule where name = 'acme'`)).toEqual([
      { time_zone: 'Asia/Tokyo' },
    ]);
  });

  it('changes on all of them, and what is decided stays decided', async () => {
    const [one, other] = await Promise.all([replica('one'), replica('other')]);
    const followed = nextEvent(other, 'job.scheduled');
    await one.get(JobRegistry).add({ name: 'acme', ...EVERY_SECOND, data: 1, owner: 'reports' });
    await followed;
    const changed = nextEvent(other, 'job.scheduled', ({ schedule }) => schedule === '"0 4 * * *" (UTC)');
    await one.get(JobRegistry).update('acme', { cron: '0 4 * * *', data: 2 });
    expect((await changed).was).toBe('"* * * * * *" (UTC)');
    expect(other.get(JobRegistry).get('acme')!.definition).toMatchObject({
      data: 2,
      owner: 'reports',
      schedule: { expression: '0 4 * * *' },
    });
    const [{ edited }] = (await database.query(`select clock_timestamp() as edited`)) as [{ edited: Date }];
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(
      await database.query(`select fire_time from job_runs where job_name = 'acme' and fire_time > $1`, [edited]),
    ).toEqual([]);
  });

  it('is removed from all of them, its history stays, and its waiting runs are cancelled', async () => {
    const [one, other] = await Promise.all([replica('one'), replica('other')]);
    const followed = nextEvent(other, 'job.scheduled');
    await one.get(JobRegistry).add({ name: 'acme', ...EVERY_SECOND });
    // One of them tries it first, and may win each time.
    await Promise.all([followed, Promise.any([nextRun(one, 'acme'), nextRun(other, 'acme')])]);
    await database.query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at)
       values ('acme', date_trunc('second', now() - interval '1 hour'), 'queued', 'schedule', now() + interval '1 hour')`,
    );
    const gone = nextEvent(other, 'job.unscheduled');
    await one.get(JobRegistry).remove('acme');
    await gone;
    expect(other.get(JobRegistry).names()).toEqual(['declared']);
    expect(await database.query(`select reason from job_runs where status = 'cancelled'`)).toEqual([
      { reason: 'its job was removed' },
    ]);
    expect(await database.query(`select from job_runs where job_name = 'acme' and status = 'done'`)).not.toEqual([]);
    const again = nextEvent(other, 'job.scheduled');
    await one.get(JobRegistry).add({ name: 'acme', cron: '0 4 * * *', handler: 'report' });
    expect(await again).toMatchObject({ jobName: 'acme', was: null });
  });

  it('B29 is left alone by a replica that lacks its handler, without a word', async () => {
    const one = await replica('one');
    await one.get(JobRegistry).add({ name: 'acme', ...EVERY_SECOND });
    const other = await startApp(database, {}, { pollInterval: 200 });
    const failed = nextEvent(other, 'loop.failed');
    await nextRun(one, 'acme');
    expect(other.get(JobRegistry).names()).toEqual([]);
    await expect(Promise.race([failed, nextRun(one, 'acme').then(() => 'quiet')])).resolves.toBe('quiet');
    failed.catch(() => {});
  });

  it('B28 that was removed while it ran, and whose process is gone, is ended by a replica that never knew it', async () => {
    const one = await replica('one');
    await one.get(JobRegistry).add({ name: 'acme', cron: '0 4 * * *', handler: 'report' });
    await one.get(JobRegistry).remove('acme');
    await one.close();
    await database.query(
      `insert into job_runs (job_name, fire_time, status, trigger, claimed_by, attempt, lease_until)
       values ('acme', date_trunc('second', now() - interval '1 minute'), 'running', 'schedule', 'gone', 1, now() - interval '1 second')`,
    );
    await database.query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at)
       values ('acme', date_trunc('second', now() - interval '1 hour'), 'queued', 'schedule', now() + interval '1 hour')`,
    );
    const other = await startApp(database, {}, { pollInterval: 200 });
    const rows = () => database.query<{ status: string }>('select status, reason from job_runs order by fire_time');
    await eventually(
      'both to be decided',
      async () => (await rows()).every(({ status }) => ['cancelled', 'dead'].includes(status)),
      { seen: rows },
    );
    expect(await rows()).toEqual([
      { status: 'cancelled', reason: 'its job was removed' },
      { status: 'dead', reason: 'the lease of gone ran out, and its job was removed' },
    ]);
    expect(other.get(JobRegistry).names()).toEqual([]);
  });

  it('that a person stored in a way nobody can read is told, and hurts no other', async () => {
    const one = await replica('one');
    await one.get(JobRegistry).add({ name: 'fine', ...EVERY_SECOND });
    await one.get(JobRegistry).add({ name: 'acme', ...EVERY_SECOND });
    await one.close();
    await database.query(`update job_schedule set cron = 'never ever' where name = 'acme'`);
    const other = await replica('other');
    await nextRun(other, 'fine');
    expect(other.get(JobRegistry).names()).toEqual(['declared', 'fine']);
    const told = nextEvent(other, 'job.unreadable');
    await database.query(
      `update job_schedule set cron = 'never again', revision = 1 + (select max(revision) from job_schedule) where name = 'acme'`,
    );
    expect(await told).toMatchObject({ jobName: 'acme', problem: expect.stringContaining('never again') });
  });
});

describe('the instance that is asked', () => {
  const job = { name: 'acme', cron: '0 4 * * *', handler: 'report' };

  it('knows of each change once the call has resolved', async () => {
    // So slow that it would not look by itself.
    const registry = (await startApp(database, { providers: [reportsOf('one')] }, { pollInterval: '1m' })).get(
      JobRegistry,
    );
    for (let round = 0; round < 3; round++) {
      await registry.add(job);
      expect(registry.names()).toContain('acme');
      await registry.update('acme', { cron: '0 5 * * *', data: round });
      expect(registry.get('acme')!.definition).toMatchObject({ data: round, schedule: { expression: '0 5 * * *' } });
      await registry.remove('acme');
      expect(registry.names()).not.toContain('acme');
    }
  });

  it('waits for nothing where it takes no part, or has not the handler', async () => {
    await replica('other');
    const waited = jest.spyOn(globalThis, 'setInterval');
    for (const options of [{ enabled: false }, {}]) {
      const app = await startApp(database, { providers: options.enabled === false ? [reportsOf('one')] : [] }, options);
      waited.mockClear();
      await app.get(JobRegistry).add({ ...job, name: `acme ${options.enabled}` });
      expect(waited.mock.calls.filter(([, millis]) => millis === 2_000)).toEqual([]);
    }
    waited.mockRestore();
  });
});

describe('making one', () => {
  let registry: JobRegistry;
  beforeEach(async () => {
    registry = (await replica('one')).get(JobRegistry);
  });

  it('says everything that is wrong with it, at once', async () => {
    const wrong = {
      name: 'acme',
      cron: '0 25 * * *',
      handler: 'reprot',
      lease: '10ms',
      timezone: 'UTC',
      backoff: () => 1,
      data: 1n,
    };
    const error = (await registry.add(wrong as never).catch((thrown: unknown) => thrown)) as InvalidOptionsError;
    expect(error).toBeInstanceOf(InvalidOptionsError);
    for (const part of [
      'hour 25',
      '"reprot"',
      'there are report',
      'lease',
      'did you mean "timeZone"',
      'backoff: a function cannot be stored',
      'data: expected something that JSON can hold',
    ]) {
      expect(error.message).toContain(part);
    }
    expect(error.problems.every((problem) => problem.startsWith('JobRegistry.add: job "acme": '))).toBe(true);
    await expect(registry.add(undefined as never)).rejects.toThrow('expected an object with name, cron and handler');
    await expect(registry.add({ cron: '* * * * *', handler: 'report' } as never)).rejects.toThrow(InvalidOptionsError);
    expect(await database.query('select name from job_schedule')).toEqual([{ name: 'declared' }]);
  });

  it('names the options that there are, for a job made at run time', async () => {
    const refusal = async (job: object) =>
      (
        (await registry
          .add({ name: 'acme', cron: '0 4 * * *', handler: 'report', ...job } as never)
          .catch((error: unknown) => error)) as InvalidOptionsError
      ).problems;
    const place = 'JobRegistry.add: job "acme": ';
    expect(await refusal({ crno: '0 4 * * *', cron: undefined })).toEqual([
      `${place}Unknown option "crno"; did you mean "cron"?`,
      `${place}cron: expected a cron expression such as "15 2 * * *", got undefined.`,
    ]);
    expect(await refusal({ handlre: 'report' })).toEqual([`${place}Unknown option "handlre"; did you mean "handler"?`]);
    const [unlike] = await refusal({ payload: 1 });
    expect(unlike).toContain(`${place}Unknown option "payload"; there are name, cron, handler, data, owner, `);
    expect(unlike).not.toContain('previously');
    expect(await refusal({ previously: 'other' })).toEqual([
      `${place}previously: only for jobs that the code declares.`,
    ]);
  });

  it('refuses one that could be caught up when its history is gone', async () => {
    const app = await startApp(database, { providers: [reportsOf('forgetful')] }, { retention: '3d' });
    const job = { name: 'acme', cron: '0 4 * * *', handler: 'report', catchUpWindow: '7d' } as const;
    await expect(app.get(JobRegistry).add(job)).rejects.toThrow(
      'JobRegistry.add: job "acme": catchUpWindow (7d) with a margin of 1d is longer than the retention (3d)',
    );
    await app.get(JobRegistry).add({ ...job, catchUpWindow: '2d' });
  });

  it('refuses a name that is taken, and leaves what the code declares to the code', async () => {
    await registry.add({ name: 'acme', cron: '0 4 * * *', handler: 'report' });
    await expect(registry.add({ name: 'acme', cron: '0 5 * * *', handler: 'report' })).rejects.toThrow(
      expect.objectContaining({ code: 'job-exists' }),
    );
    await expect(registry.add({ name: 'declared', cron: '0 5 * * *', handler: 'report' })).rejects.toThrow(
      'declared by code',
    );
    await expect(registry.update('declared', { cron: '0 5 * * *' })).rejects.toThrow('change its decorator');
    await expect(registry.remove('declared')).rejects.toThrow(expect.objectContaining({ code: 'job-kind' }));
    await expect(registry.remove('nobody')).rejects.toThrow('There is no job "nobody".');
    await expect(registry.update('acme', { cron: 'never' })).rejects.toThrow('JobRegistry.update: job "acme": ');
    expect(await database.query('select cron from job_schedule order by name')).toEqual([
      { cron: '0 4 * * *' },
      { cron: '0 3 * * *' },
    ]);
  });

  it('refuses changes that would come to nothing', async () => {
    await registry.add({ name: 'acme', cron: '0 4 * * *', handler: 'report' });
    const refusal = (changes: unknown) => registry.update('acme', changes as never).catch((error: unknown) => error);
    expect(await refusal(undefined)).toMatchObject({
      problems: [
        'JobRegistry.update: job "acme": expected an object with what is to change, such as { cron }, got undefined.',
      ],
    });
    expect(await refusal([])).toBeInstanceOf(InvalidOptionsError);
    expect(await refusal({ name: 'zz', data: 1 })).toMatchObject({
      problems: [
        'JobRegistry.update: job "acme": name: a job keeps its name; add one that is named "zz" and remove this one.',
      ],
    });
    await registry.update('acme', { name: 'acme', data: 2 } as never);
    expect(registry.get('acme')!.definition.data).toBe(2);
  });

  it('of ten at the same moment under one name makes one', async () => {
    const made = await Promise.allSettled(
      Array.from({ length: 10 }, () => registry.add({ name: 'acme', cron: '0 4 * * *', handler: 'report' })),
    );
    expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });
});
