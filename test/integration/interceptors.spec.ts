import {
  Injectable,
  Scope,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { AsyncLocalStorage } from 'node:async_hooks';
import { catchError, EMPTY, Observable, tap } from 'rxjs';
import {
  DistributedCron,
  SchedulerContext,
  SchedulerService,
  type CronRun,
  type DistributedSchedulerOptions,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, startApp } from './support/apps.js';

const NEVER = '0 0 29 2 *';
const OPS = { by: 'ops', reason: 'a test' };

let database: TestDatabase;
let told: string[];
beforeAll(async () => void (database = await createTestDatabase()));
beforeEach(() => void (told = []));
afterEach(closeApps);
afterAll(() => database.drop());

const around = (name: string): NestInterceptor => ({
  intercept: (context: ExecutionContext, next: CallHandler) => {
    const run = context.getArgByIndex<CronRun>(0);
    told.push(`${name} ${context.getType()} ${context.getClass().name}.${context.getHandler().name} ${run.jobName}`);
    return next.handle().pipe(tap({ complete: () => void told.push(`${name} after`) }));
  },
});

const tenants = new AsyncLocalStorage<string>();

@Injectable()
class Ledger {
  constructor(private readonly scheduler: SchedulerContext) {}

  async note(): Promise<void> {
    await null;
    told.push(`ledger ${this.scheduler.run?.jobName} ${this.scheduler.run?.attempt} ${tenants.getStore()}`);
  }
}

@Injectable()
class Jobs {
  constructor(private readonly ledger: Ledger) {}

  @UseInterceptors(around('bound'))
  @DistributedCron(NEVER, { name: 'job' })
  protected job() {
    return this.ledger.note();
  }

  @DistributedCron(NEVER, { name: 'failing', maxAttempts: 1 })
  protected failing() {
    throw new TypeError('no');
  }
}

@Injectable({ scope: Scope.REQUEST })
class Scoped {
  @DistributedCron(NEVER, { name: 'scoped' })
  protected scoped() {
    told.push('scoped');
  }
}

@Injectable()
class Tenants implements NestInterceptor {
  constructor(private readonly ledger: Ledger) {}

  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    told.push(`tenants ${this.ledger instanceof Ledger}`);
    return new Observable((subscriber) => tenants.run('acme', () => next.handle().subscribe(subscriber)));
  }
}

/** The end of a run of the job. */
async function run(jobName: string, options: DistributedSchedulerOptions, providers: unknown[] = []) {
  const app = await startApp(database, { providers: [Ledger, Jobs, Scoped, ...(providers as [])] }, options);
  const ends = Promise.race(
    (['run.completed', 'run.dead'] as const).map((type) => nextEvent(app, type, (event) => event.jobName === jobName)),
  );
  await app.get(SchedulerService).runNow(jobName, OPS);
  const end = await ends;
  expect(app.get(SchedulerContext).run).toBeUndefined();
  return end;
}

describe('interceptors of the module', () => {
  it('are around each handler and what is bound on it, and know the run', async () => {
    const { type } = await run('job', { interceptors: [around('first'), Tenants, around('second')] }, [Tenants]);
    expect(type).toBe('run.completed');
    expect(told).toEqual([
      'first cron Jobs.job job',
      'tenants true',
      'second cron Jobs.job job',
      'bound cron Jobs.job job',
      'ledger job 1 acme',
      'bound after',
      'second after',
      'first after',
    ]);
  });

  it('are the providers of the application where it has them', async () => {
    const own = { intercept: (_: ExecutionContext, next: CallHandler) => (told.push('own'), next.handle()) };
    await run('job', { interceptors: [Tenants] }, [{ provide: Tenants, useValue: own }]);
    expect(told[0]).toBe('own');
  });

  it('are around handlers that are made for each run', async () => {
    await run('scoped', { interceptors: [around('first')] });
    expect(told).toEqual(['first cron Scoped.scoped scoped', 'scoped', 'first after']);
  });

  it('see the error itself, and may leave the run failed or have it done', async () => {
    const seen: unknown[] = [];
    const watch = (then: (error: unknown) => Observable<never>): NestInterceptor => ({
      intercept: (_, next) => next.handle().pipe(catchError((error: unknown) => (seen.push(error), then(error)))),
    });
    const rethrow = watch((error) => {
      throw error;
    });
    expect(await run('failing', { interceptors: [rethrow] })).toMatchObject({
      type: 'run.dead',
      error: { name: 'TypeError' },
    });
    await closeApps();
    expect(await run('failing', { interceptors: [watch(() => EMPTY)] })).toMatchObject({ type: 'run.completed' });
    expect(seen).toEqual([expect.any(TypeError), expect.any(TypeError)]);
  });

  it('that are none, or live for one request, are refused at the start', async () => {
    await expect(startApp(database, {}, { interceptors: [{} as never] })).rejects.toThrow(
      'interceptors: expected a list of interceptors, classes or objects, got an object',
    );
    await expect(startApp(database, {}, { interceptors: Tenants as never })).rejects.toThrow('interceptors: expected');
    await expect(startApp(database, { providers: [Ledger] }, { interceptors: [Tenants] })).rejects.toThrow(
      'interceptors: Tenants injects something: add it to the providers of a module of yours',
    );
    @Injectable({ scope: Scope.REQUEST })
    class OfARequest extends Tenants {}
    await expect(
      startApp(database, { providers: [Ledger, OfARequest] }, { interceptors: [OfARequest] }),
    ).rejects.toThrow(/interceptors: OfARequest is marked as a scoped provider/);
  });
});
