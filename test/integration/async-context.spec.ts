import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { TestingModule } from '@nestjs/testing';
import {
  CronRun,
  DistributedCron,
  DistributedCronHandler,
  JobRegistry,
  ReceiptService,
  SchedulerEvents,
  SchedulerService,
  type Alert,
  type DistributedSchedulerOptions,
} from '../../lib/index.js';
import { eventually } from '../cluster/harness/eventually.js';
import { GuardedClient } from '../../lib/database/clients.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp } from './support/apps.js';

const context = new AsyncLocalStorage<string>();

let database: TestDatabase;
beforeAll(async () => void (database = await createTestDatabase()));
afterEach(closeApps);
afterAll(() => database.drop());

/** In which contexts something of the application was called, by its name. */
class Seen {
  private readonly calls = new Map<string, Set<string>>();

  note(what: string): void {
    const stores = this.calls.get(what) ?? new Set();
    this.calls.set(what, stores.add(context.getStore() ?? 'none'));
  }

  of(what: string): string[] {
    return [...(this.calls.get(what) ?? [])];
  }

  get all(): Record<string, string[]> {
    return Object.fromEntries([...this.calls].map(([what, stores]) => [what, [...stores]]));
  }
}

const OPS = { by: 'ops', reason: 'because' };

/** Started, as everything here, inside a context. */
function startInside(seen: Seen, options: DistributedSchedulerOptions = {}): Promise<TestingModule> {
  @Injectable()
  class Jobs {
    constructor(private readonly receipts: ReceiptService) {}

    @DistributedCron('* * * * * *', {
      name: 'each second',
      overlap: 'allow',
      maxAttempts: 1,
      flag: 'may run',
      backoff: () => (seen.note('backoff'), 10),
      retryable: () => (seen.note('retryable'), true),
    })
    async each(run: CronRun) {
      seen.note('handler');
      await context.run('the handler’s own', () => this.receipts.once('1', () => seen.note('effect')));
      await run.checkpoint.save(1);
      seen.note('handler, later');
    }

    @DistributedCron('0 0 29 2 *', {
      name: 'by hand',
      maxAttempts: 2,
      backoff: () => (seen.note('backoff'), 10),
      retryable: () => (seen.note('retryable'), true),
    })
    byHand() {
      seen.note('handler by hand');
      throw new Error('once more');
    }

    @DistributedCronHandler('made')
    made() {
      seen.note('handler at run time');
    }
  }
  @Injectable()
  class Listener {
    constructor(events: SchedulerEvents) {
      events.subscribe(({ type }) => seen.note(`event ${type}`));
    }
  }
  const alerts = { sink: { alert: async ({ kind }: Alert) => seen.note(`alert ${kind}`) } };
  const featureFlags = { isOn: async () => (seen.note('flag'), true) };
  return context.run('bootstrap', () =>
    startApp(database, { providers: [Jobs, Listener] }, { pollInterval: 100, alerts, featureFlags, ...options }),
  );
}

describe('B46 nothing of the application is called in the async context of a bootstrap or of a request', () => {
  it('neither handlers nor events, alerts, flags and policies, whoever asked for the run', async () => {
    const seen = new Seen();
    const app = await startInside(seen);
    const scheduler = app.get(SchedulerService);
    const registry = app.get(JobRegistry);
    await eventually('the first runs', async () => seen.of('handler, later').length > 0);
    await context.run('request: run now', () => scheduler.runNow('by hand', OPS));
    await eventually('the run by hand to be dead', async () => seen.of('alert run.dead').length > 0);
    await context.run('request: add', () =>
      registry.add({ name: 'made at run time', handler: 'made', cron: '* * * * * *', overlap: 'allow' }),
    );
    await eventually('the run of the job made at run time', async () => seen.of('handler at run time').length > 0);
    await context.run('request: pause', () => scheduler.pause('each second', OPS));
    await context.run('request: resume', () => scheduler.resume('each second', OPS));
    await context.run('request: inventory', () => scheduler.inventory());
    const runs = seen.of('event run.completed').length;
    await eventually('runs after that', async () => seen.of('event run.completed').length >= runs);
    await context.run('shutdown', () => app.close());
    const { effect, ...others } = seen.all;
    expect(effect).toEqual(['the handler’s own']);
    expect(others).toEqual(Object.fromEntries(Object.keys(others).map((what) => [what, ['none']])));
    expect(Object.keys(others)).toEqual(
      expect.arrayContaining([
        'handler',
        'handler by hand',
        'handler at run time',
        'flag',
        'backoff',
        'retryable',
        'event job.scheduled',
        'event scheduler.stopped',
      ]),
    );
  });

  it('nor on a connection that was made in one: what comes on it later is nobody’s', async () => {
    const client = new GuardedClient({ connectionString: database.url });
    await context.run('request', () => client.connect());
    const heard = new Promise<string>((resolve) =>
      client.on('notification', () => resolve(context.getStore() ?? 'none')),
    );
    await client.query('listen somebody');
    await database.query('notify somebody');
    expect(await heard).toBe('none');
    await client.end();
  });
});
