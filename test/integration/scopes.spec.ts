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

/** What each run of a job saw, and the instance it ran on. */
const seen = new Map<string, { run: CronRun; request: unknown; instance: object }[]>();
function see(run: CronRun, request: unknown, instance: object): void {
  seen.set(run.jobName, [...(seen.get(run.jobName) ?? []), { run, request, instance }]);
}

@Injectable({ scope: Scope.REQUEST })
class Tenant {
  constructor(@Inject(REQUEST) readonly request: unknown) {}
}

@Injectable({ scope: Scope.REQUEST })
class RequestScoped {
  constructor(@Inject(REQUEST) private readonly request: unknown) {}

  @DistributedCron('* * * * * *')
  run(run: CronRun) {
    see(run, this.request, this);
  }
}

@Injectable({ scope: Scope.REQUEST })
class UnderAnotherToken {
  constructor(@Inject(REQUEST) private readonly request: unknown) {}

  @DistributedCron('* * * * * *')
  run(run: CronRun) {
    see(run, this.request, this);
  }
}

/** There is no strategy to share it by, so it is made for each run. */
@Injectable({ scope: Scope.REQUEST, durable: true })
class Durable {
  constructor(@Inject(REQUEST) private readonly request: unknown) {}

  @DistributedCron('* * * * * *')
  run(run: CronRun) {
    see(run, this.request, this);
  }
}

class ByDependency {
  constructor(protected readonly tenant: Tenant) {}

  @DistributedCron('* * * * * *')
  run(run: CronRun) {
    see(run, this.tenant.request, this);
  }
}
@Injectable()
class Dependent extends ByDependency {
  constructor(tenant: Tenant) {
    super(tenant);
  }
}
@Controller()
class Web extends ByDependency {
  constructor(tenant: Tenant) {
    super(tenant);
  }
}

describe('a handler is resolved anew for each run, and REQUEST is the run, of', () => {
  const JOBS = [RequestScoped, UnderAnotherToken, Durable, Dependent, Web].map(({ name }) => `${name}.run`);

  it('request-scoped and durable providers, and providers and controllers that depend on one', async () => {
    const providers = [Tenant, RequestScoped, { provide: 'jobs', useClass: UnderAnotherToken }, Durable, Dependent];
    const app = await startApp(database, { providers, controllers: [Web] });
    await Promise.all(JOBS.map(async (job) => [await nextRun(app, job), await nextRun(app, job)]));
    for (const job of JOBS) {
      const runs = seen.get(job)!;
      expect(runs.map(({ request, run }) => request === run && run instanceof CronRun)).toEqual(runs.map(() => true));
      expect(new Set(runs.map(({ instance }) => instance)).size).toBe(runs.length);
    }
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
