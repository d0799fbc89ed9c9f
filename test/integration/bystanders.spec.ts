import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { DistributedCron, DistributedCronHandler, JobRegistry } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { eventually } from '../cluster/harness/eventually.js';
import { closeApps, startApp } from './support/apps.js';

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

function version(cron: string, options: object) {
  @Injectable()
  class Jobs {
    @DistributedCron(cron, options)
    job() {}

    @DistributedCronHandler('report')
    report() {}
  }
  return Jobs;
}

const stored = () =>
  database.query<{ name: string; cron: string; yields_to: string | null }>(
    'select name, cron, yields_to from job_schedule order by name',
  );

describe('an instance that is not enabled', () => {
  it('takes no schedule over, even when nobody else is there', async () => {
    const first = await startApp(database, { providers: [version('0 3 * * *', { name: 'job' })] });
    await first.close();
    await startApp(database, { providers: [version('0 4 * * *', { name: 'job' })] }, { enabled: false });
    expect(await stored()).toEqual([{ name: 'job', cron: '0 3 * * *', yields_to: null }]);
    await startApp(
      database,
      { providers: [version('0 3 * * *', { name: 'renamed', previously: 'job' })] },
      { enabled: false },
    );
    expect(await stored()).toEqual([
      { name: 'job', cron: '0 3 * * *', yields_to: null },
      { name: 'renamed', cron: '0 3 * * *', yields_to: 'job' },
    ]);
  });
});

describe('a handler', () => {
  it.each(['', 'nul \0', 'half \ud800', 'x'.repeat(201)])(
    'is refused in words when its name cannot be stored (%j)',
    async (name) => {
      class Reports {
        @DistributedCronHandler(name)
        send() {}
      }
      await expect(startApp(database, { providers: [Reports] })).rejects.toThrow(
        /Reports.send: @DistributedCronHandler: name: expected /,
      );
    },
  );
});

describe('a job made at run time', () => {
  it('may have the name of one that no code declares any more', async () => {
    const first = await startApp(database, { providers: [version('0 3 * * *', { name: 'job' })] });
    await first.close();
    const next = await startApp(database, { providers: [version('0 3 * * *', { name: 'other' })] });
    await next.get(JobRegistry).add({ name: 'job', cron: '0 5 * * *', handler: 'report' });
    expect(await stored()).toContainEqual({ name: 'job', cron: '0 5 * * *', yields_to: null });
  });

  it.each([
    ['data', { data: { text: '\ud800' } }],
    ['owner', { owner: 'a\ud800' }],
    ['name', { name: 'a\ud800' }],
  ])('is refused in words when half a character is in its %s', async (what, half) => {
    const app = await startApp(database, { providers: [version('0 3 * * *', { name: 'job' })] });
    await expect(
      app.get(JobRegistry).add({ name: 'half', cron: '0 5 * * *', handler: 'report', ...half }),
    ).rejects.toThrow(new RegExp(`^JobRegistry.add: .*${what}`));
  });

  it('may have the words for NUL in its data', async () => {
    const app = await startApp(database, { providers: [version('0 3 * * *', { name: 'job' })] });
    await app
      .get(JobRegistry)
      .add({ name: 'words', cron: '0 5 * * *', handler: 'report', data: 'it is written \\u0000' });
    expect(await database.query(`select data from job_schedule where name = 'words'`)).toEqual([
      { data: 'it is written \\u0000' },
    ]);
  });

  it('G11 is refused when what it may catch up is forgotten before', async () => {
    const app = await startApp(database, { providers: [version('0 3 * * *', { name: 'job' })] }, { retention: '7d' });
    const jobs = app.get(JobRegistry);
    await expect(jobs.add({ name: 'old', cron: '0 5 * * *', handler: 'report', catchUpWindow: '7d' })).rejects.toThrow(
      /JobRegistry.add: job "old": catchUpWindow .* retention/,
    );
    await jobs.add({ name: 'old', cron: '0 5 * * *', handler: 'report', catchUpWindow: '6d' });
    await expect(jobs.update('old', { catchUpWindow: '30d' })).rejects.toThrow(/retention/);
  });

  it('may have any name and odd keys in its data', async () => {
    const app = await startApp(database, { providers: [version('0 3 * * *', { name: 'job' })] }, { pollInterval: 200 });
    const name = `it's "100%" $1 \u202eñ漢😀`;
    const odd = JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":1},"a":{"":null}}') as object;
    await app.get(JobRegistry).add({ name, cron: '0 5 * * *', handler: 'report', data: odd });
    await eventually('the job', async () => app.get(JobRegistry).get(name));
    expect(app.get(JobRegistry).get(name)!.definition.data).toEqual(odd);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});
