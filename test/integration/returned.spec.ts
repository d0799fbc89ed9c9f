import { Injectable, UseInterceptors, type CallHandler, type ExecutionContext } from '@nestjs/common';
import { EMPTY, from, of, throwError } from 'rxjs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DistributedCron, type EventOf } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

const options = (name: string) => ({ name, maxAttempts: 1 });

const skipping = { intercept: () => EMPTY };
const passing = { intercept: (_context: ExecutionContext, next: CallHandler) => next.handle() };

@Injectable()
class Jobs {
  @DistributedCron('* * * * * *', options('a promise'))
  async promise() {}

  @DistributedCron('* * * * * *', options('an observable'))
  observable() {
    return from([1, 2, 3]);
  }

  @DistributedCron('* * * * * *', options('an observable without values'))
  empty() {
    return EMPTY;
  }

  @UseInterceptors(passing)
  @DistributedCron('* * * * * *', options('an observable without values, through an interceptor'))
  passed() {
    return EMPTY;
  }

  @UseInterceptors(skipping)
  @DistributedCron('* * * * * *', options('nothing, for an interceptor that skips the handler'))
  skipped() {
    throw new Error('must not run');
  }

  @DistributedCron('* * * * * *', options('an observable that fails'))
  failing() {
    return throwError(() => new RangeError('in the stream'));
  }

  @DistributedCron('* * * * * *', options('a value'))
  value() {
    return of('value') && 'value';
  }
}

const ENDS: Record<string, string> = {
  'a promise': 'run.completed',
  'an observable': 'run.completed',
  'an observable without values': 'run.completed',
  'an observable without values, through an interceptor': 'run.completed',
  'nothing, for an interceptor that skips the handler': 'run.completed',
  'an observable that fails': 'run.dead',
  'a value': 'run.completed',
};

let database: TestDatabase;
const ends = new Map<string, EventOf<'run.completed' | 'run.dead'>>();
beforeAll(async () => {
  database = await createTestDatabase();
  const app = await startApp(database, { providers: [Jobs] });
  await Promise.all(
    Object.keys(ENDS).map(async (job) => {
      const ofJob = ({ jobName }: { jobName: string }) => jobName === job;
      ends.set(job, await Promise.race([nextEvent(app, 'run.completed', ofJob), nextEvent(app, 'run.dead', ofJob)]));
    }),
  );
});
afterAll(async () => {
  await closeApps();
  await database.drop();
});

describe('a handler that returns', () => {
  it.each(Object.entries(ENDS))('%s ends as %s', (job, type) => {
    expect(ends.get(job)!.type).toBe(type);
  });

  it('an observable is over when that is: its error is the run’s', () => {
    expect(ends.get('an observable that fails')).toMatchObject({
      error: { name: 'RangeError', message: 'in the stream' },
    });
  });
});
