import { Injectable } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { firstValueFrom, filter, scan, timeout } from 'rxjs';
import { CronRun, DistributedCron, SchedulerEvents } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp } from './support/apps.js';

const cyclic: Record<string, unknown> = { what: 'cyclic' };
cyclic['self'] = cyclic;
const trap = new Proxy(new Error('trap'), {
  get: () => {
    throw new Error('do not look');
  },
});

/** What a handler may throw, and the error that is kept. */
const THROWN: [what: string, thrown: unknown, kept: { name?: string; message: string | RegExp }][] = [
  ['an error', new TypeError('no such customer'), { name: 'TypeError', message: 'no such customer' }],
  ['a text', 'text', { message: 'text' }],
  ['null', null, { message: 'null' }],
  ['undefined', undefined, { message: 'undefined' }],
  ['a number', 42n, { message: /42|bigint/i }],
  ['a symbol', Symbol('why'), { message: /why|Symbol/ }],
  ['a frozen object', Object.freeze({ code: 7 }), { message: '{"code":7}' }],
  ['a cyclic object', cyclic, { message: /./ }],
  ['an object without a prototype', Object.create(null), { message: /./ }],
  ['an object that throws when it is looked at', trap, { message: /./ }],
  [
    'a long message with NUL and half a pair',
    new Error(`\u0000${'x'.repeat(1_000_000)}\ud800`),
    { name: 'Error', message: /^x+… \(\d+ more characters\)$/ },
  ],
  ['a NUL and half a pair', new Error('a\u0000b\ud83d'), { message: /^ab\ufffd$/ }],
];

const jobOf = (index: number, how: string) => `${how}-${index}`;

/** A provider with one method a case, decorated as the compiler would. */
function jobsThat(how: 'throw' | 'reject') {
  class Jobs {}
  for (const [index, [, thrown]] of THROWN.entries()) {
    const method = jobOf(index, how);
    let first: number | undefined;
    const value = (run: CronRun) => {
      first ??= run.fireTime.getTime();
      if (run.fireTime.getTime() !== first) return undefined;
      if (how === 'throw') throw thrown;
      return Promise.reject(thrown);
    };
    Object.defineProperty(Jobs.prototype, method, { value, configurable: true });
    DistributedCron('* * * * * *', { name: method, maxAttempts: 1 })(
      Jobs.prototype,
      method,
      Object.getOwnPropertyDescriptor(Jobs.prototype, method)!,
    );
  }
  Injectable()(Jobs);
  return Jobs;
}

let database: TestDatabase;
const unhandled: unknown[] = [];
const hear = (error: unknown) => unhandled.push(error);

beforeAll(async () => {
  database = await createTestDatabase();
  process.on('unhandledRejection', hear);
  const app = await startApp(
    database,
    { providers: [jobsThat('throw'), jobsThat('reject')] },
    { maxConcurrentRuns: 100 },
  );
  const dead = app
    .get(SchedulerEvents)
    .of('run.dead')
    .pipe(scan((jobs, { jobName }) => jobs.add(jobName), new Set<string>()));
  const next = app
    .get(SchedulerEvents)
    .of('run.completed')
    .pipe(scan((jobs, { jobName }) => jobs.add(jobName), new Set<string>()));
  await Promise.all(
    [dead, next].map((jobs) =>
      firstValueFrom(
        jobs.pipe(
          filter(({ size }) => size === 2 * THROWN.length),
          timeout(50_000),
        ),
      ),
    ),
  );
});
afterAll(async () => {
  await closeApps();
  process.off('unhandledRejection', hear);
  await database.drop();
});

describe.each(['throw', 'reject'])('B31 a handler that may %s', (how) => {
  it.each(THROWN.map(([what, , kept], index) => ({ what, kept, job: jobOf(index, how) })))(
    '$what: the run is dead with its error kept, the next one runs',
    async ({ kept, job }) => {
      const [dead, ...more] = await database.query<{ status: string; error: { name: string; message: string } }>(
        'select status, error from job_runs where job_name = $1 order by fire_time',
        [job],
      );
      expect(dead!.status).toBe('dead');
      if (kept.name) expect(dead!.error.name).toBe(kept.name);
      if (typeof kept.message === 'string') expect(dead!.error.message).toBe(kept.message);
      else expect(dead!.error.message).toMatch(kept.message);
      expect(more[0]!.status).toBe('done');
    },
  );
});

it('nothing of it ends up as an unhandled rejection', () => {
  expect(unhandled).toEqual([]);
});
