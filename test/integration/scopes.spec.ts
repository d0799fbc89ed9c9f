import { Inject, Injectable, Scope, Controller, type OnModuleInit } from '@nestjs/common';
import { ModuleRef, REQUEST } from '@nestjs/core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { CronRun, DistributedCron } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextRun, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

/** What each run saw, and the instance it ran on. */
const seen: { run: CronRun; request: unknown; instance: object }[] = [];

@Injectable({ scope: Scope.REQUEST })
class Tenant {
  constructor(@Inject(REQUEST) readonly request: unknown) {}
}

@Injectable({ scope: Scope.REQUEST })
class RequestScoped {
  constructor(@Inject(REQUEST) private readonly request: unknown) {}

  @DistributedCron('* * * * * *', { name: 'scoped' })
  run(run: CronRun) {
    seen.push({ run, request: this.request, instance: this });
  }
}

@Injectable()
class Dependent {
  constructor(private readonly tenant: Tenant) {}

  @DistributedCron('* * * * * *', { name: 'scoped' })
  run(run: CronRun) {
    seen.push({ run, request: this.tenant.request, instance: this });
  }
}

@Controller()
class Web {
  constructor(private readonly tenant: Tenant) {}

  @DistributedCron('* * * * * *', { name: 'scoped' })
  run(run: CronRun) {
    seen.push({ run, request: this.tenant.request, instance: this });
  }
}

describe('a handler is resolved anew for each run, and REQUEST is the run, of', () => {
  it.each([
    ['a request-scoped provider', { providers: [RequestScoped] }],
    ['a request-scoped provider under another token', { providers: [{ provide: 'jobs', useClass: RequestScoped }] }],
    ['a provider that depends on one', { providers: [Tenant, Dependent] }],
    ['a controller that depends on one', { providers: [Tenant], controllers: [Web] }],
  ])('%s', async (_what, metadata) => {
    seen.length = 0;
    const app = await startApp(database, metadata);
    await nextRun(app, 'scoped');
    await nextRun(app, 'scoped');
    expect(seen.map(({ request, run }) => request === run && run instanceof CronRun)).toEqual(seen.map(() => true));
    expect(new Set(seen.map(({ instance }) => instance)).size).toBe(seen.length);
  });
});

describe('a transient provider', () => {
  it('runs, with its own dependencies', async () => {
    @Injectable({ scope: Scope.TRANSIENT })
    class Notes {
      readonly lines: string[] = [];
    }
    const lines: string[][] = [];
    @Injectable({ scope: Scope.TRANSIENT })
    class Transient {
      constructor(private readonly notes: Notes) {}

      @DistributedCron('* * * * * *', { name: 'transient' })
      run({ jobName }: CronRun) {
        this.notes.lines.push(jobName);
        lines.push(this.notes.lines);
      }
    }
    @Injectable()
    class User {
      constructor(readonly one: Transient) {}
    }
    @Injectable()
    class OtherUser {
      constructor(readonly one: Transient) {}
    }
    const app = await startApp(database, { providers: [Notes, Transient, User, OtherUser] });
    await nextRun(app, 'transient');
    expect(lines[0]).toEqual(['transient']);
    const runs = await database.query(`select from job_runs where job_name = 'transient' and status <> 'skipped'`);
    expect(lines.length).toBeGreaterThanOrEqual(runs.length);
    expect(lines.length - runs.length).toBeLessThanOrEqual(1);
  });
});

describe('a durable provider', () => {
  it('is made for each run, as there is no strategy to share it by', async () => {
    const instances: object[] = [];
    @Injectable({ scope: Scope.REQUEST, durable: true })
    class Durable {
      @DistributedCron('* * * * * *', { name: 'durable' })
      run() {
        instances.push(this);
      }
    }
    const app = await startApp(database, { providers: [Durable] });
    await nextRun(app, 'durable');
    await nextRun(app, 'durable');
    expect(new Set(instances).size).toBe(instances.length);
  });
});

describe('a static provider', () => {
  it('keeps its one instance, set up by its own hooks', async () => {
    const states: string[] = [];
    @Injectable()
    class Static implements OnModuleInit {
      private state = 'new';

      constructor(readonly modules: ModuleRef) {}

      onModuleInit() {
        this.state = 'ready';
      }

      @DistributedCron('* * * * * *', { name: 'static' })
      run() {
        states.push(this.state);
      }
    }
    const app = await startApp(database, { providers: [Static] });
    await nextRun(app, 'static');
    expect(states[0]).toBe('ready');
  });
});
