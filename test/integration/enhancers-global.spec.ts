import {
  ForbiddenException,
  Injectable,
  type CallHandler,
  type ExceptionFilter,
  type ExecutionContext,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, APP_PIPE, type ApplicationConfig } from '@nestjs/core';
import type { TestingModule } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { DistributedCron, DistributedSchedulerModule, SchedulerEvents, type SchedulerEvent } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, startModules } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

const touched: string[] = [];
afterEach(() => {
  touched.length = 0;
});

/** Written for requests: each would spoil a run. */
const guard = { canActivate: () => touched.push('guard') < 0 };
const pipe = {
  transform: () => {
    touched.push('pipe');
    throw new ForbiddenException();
  },
};
const interceptor = {
  intercept: (_context: ExecutionContext, next: CallHandler) => {
    touched.push('interceptor');
    return next.handle();
  },
};
const filter: ExceptionFilter = {
  catch: () => {
    touched.push('filter');
    return 'handled';
  },
};

@Injectable()
class Jobs {
  @DistributedCron('* * * * * *', { name: 'fine', maxAttempts: 1 })
  fine() {}

  @DistributedCron('* * * * * *', { name: 'failing', maxAttempts: 1 })
  failing() {
    throw new Error('no global filter answers this');
  }
}

const scheduler = () => DistributedSchedulerModule.forRoot({ connection: database.url, migrate: true, logging: false });

async function endsOfBoth(app: TestingModule): Promise<SchedulerEvent['type'][]> {
  const ends: SchedulerEvent[] = [];
  app
    .get(SchedulerEvents)
    .of('run.completed', 'run.dead')
    .subscribe((event) => ends.push(event));
  await Promise.all(
    ['fine', 'failing'].map((job) =>
      Promise.race(
        (['run.completed', 'run.dead'] as const).map((type) => nextEvent(app, type, ({ jobName }) => jobName === job)),
      ),
    ),
  );
  return ['fine', 'failing'].map((job) => ends.find((end) => 'jobName' in end && end.jobName === job)!.type);
}

describe('what is global does not touch a run when it comes', () => {
  it('by useGlobalGuards, useGlobalPipes, useGlobalInterceptors and useGlobalFilters', async () => {
    const app = await startModules({ imports: [scheduler()], providers: [Jobs] }, (module) => {
      const { applicationConfig } = module as unknown as { applicationConfig: ApplicationConfig };
      applicationConfig.useGlobalGuards(guard);
      applicationConfig.useGlobalPipes(pipe);
      applicationConfig.useGlobalInterceptors(interceptor);
      applicationConfig.useGlobalFilters(filter);
    });
    expect(await endsOfBoth(app)).toEqual(['run.completed', 'run.dead']);
    expect(touched).toEqual([]);
  });

  it('by APP_GUARD, APP_PIPE, APP_INTERCEPTOR and APP_FILTER', async () => {
    const providers = [
      { provide: APP_GUARD, useValue: guard },
      { provide: APP_PIPE, useValue: pipe },
      { provide: APP_INTERCEPTOR, useValue: interceptor },
      { provide: APP_FILTER, useValue: filter },
    ];
    const app = await startModules({ imports: [scheduler()], providers: [Jobs, ...providers] });
    expect(await endsOfBoth(app)).toEqual(['run.completed', 'run.dead']);
    expect(touched).toEqual([]);
  });
});
