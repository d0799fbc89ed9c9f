import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { DistributedCron, InvalidOptionsError, SchedulerService } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp } from './support/apps.js';

let database: TestDatabase;
let scheduler: SchedulerService;
beforeAll(async () => {
  @Injectable()
  class Exports {
    @DistributedCron('0 3 29 2 *', { name: 'export' })
    export() {}
  }
  database = await createTestDatabase();
  scheduler = (await startApp(database, { providers: [Exports] }, { enabled: false })).get(SchedulerService);
});
afterAll(async () => {
  await closeApps();
  await database.drop();
});

const OPS = { by: 'ops' };
const AT = new Date('2024-02-29T03:00:00Z');
/** What a person, or JavaScript, may write whatever the types say. */
const wrong = (given: unknown) => given as never;

describe('an operator who mistypes an option changes nothing, and is told', () => {
  it.each<[string, () => unknown, string]>([
    [
      'pause',
      () => scheduler.pause('export', OPS, wrong({ Until: AT })),
      'SchedulerService.pause: Unknown option "Until"; did you mean "until"?',
    ],
    [
      'pause',
      () => scheduler.pause('export', OPS, wrong(null)),
      'SchedulerService.pause: expected an object with until, got null',
    ],
    [
      'pause',
      () => scheduler.pause('export', OPS, wrong(AT.toISOString())),
      `SchedulerService.pause: expected an object with until, got "${AT.toISOString()}"`,
    ],
    [
      'pause',
      () => scheduler.pause('export', wrong({ by: 'ops', reasn: 'maintenance' })),
      'SchedulerService.pause: Unknown option "reasn"; did you mean "reason"?',
    ],
    [
      'resume',
      () => scheduler.resume('export', wrong('ops')),
      `SchedulerService.resume: say who does it, as { by: 'name', reason: '…' }.`,
    ],
    ['enable', () => scheduler.enable('export', wrong(['ops'])), 'SchedulerService.enable: say who does it'],
    [
      'disable',
      () => scheduler.disable('export', wrong({ By: 'ops' })),
      'SchedulerService.disable: Unknown option "By"; did you mean "by"?',
    ],
    ['disable', () => scheduler.disable('export', wrong({})), 'SchedulerService.disable: by: expected a text'],
    [
      'override',
      () => scheduler.override('export', wrong({ timezone: 'Europe/Berlin', cron: '0 4 * * *' }), OPS),
      'SchedulerService.override: Unknown option "timezone"; did you mean "timeZone"?',
    ],
    [
      'override',
      () => scheduler.override('export', wrong('0 4 * * *'), OPS),
      'SchedulerService.override: expected an object with cron, timeZone, got "0 4 * * *"',
    ],
    [
      'override',
      () => scheduler.override('export', wrong(null), OPS),
      'SchedulerService.override: expected an object with cron, timeZone, got null',
    ],
    [
      'override',
      () => scheduler.override('export', wrong({ cron: null, timeZone: 'UTC' }), OPS),
      'SchedulerService.override: cron: expected a cron expression such as "15 2 * * *", got null',
    ],
    [
      'clearOverride',
      () => scheduler.clearOverride('export', wrong({ by: 'ops', why: 'x' })),
      'SchedulerService.clearOverride: Unknown option "why"',
    ],
    [
      'skipNext',
      () => scheduler.skipNext('export', OPS, wrong({ Count: 3 })),
      'SchedulerService.skipNext: Unknown option "Count"; did you mean "count"?',
    ],
    [
      'skipNext',
      () => scheduler.skipNext('export', OPS, wrong(3)),
      'SchedulerService.skipNext: expected an object with count, got 3',
    ],
    [
      'unskip',
      () => scheduler.unskip('export', AT, wrong({ by: 'ops', reasons: 'x' })),
      'SchedulerService.unskip: Unknown option "reasons"',
    ],
    [
      'setFlag',
      () => scheduler.setFlag('exports', false, wrong({ by: 'ops', reasons: 'x' })),
      'SchedulerService.setFlag: Unknown option "reasons"',
    ],
    [
      'runNow',
      () => scheduler.runNow('export', OPS, wrong({ overlaps: 'allow' })),
      'SchedulerService.runNow: Unknown option "overlaps"; did you mean "overlap"?',
    ],
    [
      'runNow',
      () => scheduler.runNow('export', OPS, wrong(null)),
      'SchedulerService.runNow: expected an object with overlap, data, got null',
    ],
    [
      'cancel',
      () => scheduler.cancel('export', AT, wrong({ by: 'ops', reasn: 'x' })),
      'SchedulerService.cancel: Unknown option "reasn"',
    ],
    [
      'replay',
      () => scheduler.replay('export', AT, wrong({ by: 'ops', reasn: 'x' })),
      'SchedulerService.replay: Unknown option "reasn"',
    ],
    [
      'replayAll',
      () => scheduler.replayAll(wrong('succ'), OPS),
      'SchedulerService.replayAll: expected an object with jobName, status, from, to, errorContains, got "succ"',
    ],
    [
      'replayAll',
      () => scheduler.replayAll(wrong(null), OPS),
      'SchedulerService.replayAll: expected an object with jobName, status, from, to, errorContains, got null',
    ],
    [
      'replayAll',
      () => scheduler.replayAll({}, OPS, wrong({ dryrun: true })),
      'SchedulerService.replayAll: Unknown option "dryrun"; did you mean "dryRun"?',
    ],
    [
      'discard',
      () => scheduler.discard('export', AT, wrong({ by: 'ops', reasn: 'x' })),
      'SchedulerService.discard: Unknown option "reasn"',
    ],
    [
      'discardAll',
      () => scheduler.discardAll(wrong({ job: 'export' }), { ...OPS, reason: 'x' }),
      'SchedulerService.discardAll: Unknown option "job"',
    ],
    [
      'actions',
      () => scheduler.actions(wrong({ job: 'export' })),
      'SchedulerService.actions: Unknown option "job"; there are jobName, limit.',
    ],
    [
      'actions',
      () => scheduler.actions(wrong(null)),
      'SchedulerService.actions: expected an object with jobName, limit, got null',
    ],
    ['backfill', () => scheduler.backfill('export', AT, AT, wrong(null)), 'expected an object with dryRun, '],
    [
      'cancelBackfill',
      () => scheduler.cancelBackfill('4711', wrong('ops')),
      'cancelBackfill: expected an object with by, reason, got "ops"',
    ],
    [
      'nextFireTimes',
      async () => scheduler.nextFireTimes('export', wrong([3])),
      'nextFireTimes of job "export": expected an object with count, from, got an array',
    ],
  ])('%s', async (_, call, message) => {
    const refused = (async () => call())();
    await expect(refused).rejects.toThrow(message);
    expect(await database.query('select * from job_actions')).toEqual([]);
  });

  it('also of two things at once', async () => {
    const refused = scheduler.pause('export', wrong({ by: '', reasn: 'x' }));
    await expect(refused).rejects.toThrow(InvalidOptionsError);
    await expect(refused).rejects.toMatchObject({
      problems: [expect.stringContaining('by: expected a text'), expect.stringContaining('Unknown option "reasn"')],
    });
  });
});
