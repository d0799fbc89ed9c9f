import { Injectable, Logger, Module, type LoggerService, type OnModuleInit } from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { config, of } from 'rxjs';
import {
  DistributedCron,
  DistributedCronHandler,
  DistributedCronPage,
  DistributedSchedulerModule,
  JobRegistry,
  SchedulerEvents,
  SchedulerService,
} from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, nextRun, startApp } from './support/apps.js';

/** Fires once in years: registered, never run. */
const SELDOM = '0 0 29 2 *';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  await closeApps();
  for (const close of closing.splice(0)) await close();
});
afterAll(() => database.drop());

/** A started application of these modules and providers, and what it warns of. */
async function appWithLog(
  metadata: Parameters<typeof Test.createTestingModule>[0],
  write: (line: string) => void = () => {},
) {
  const warnings: string[] = [];
  const hear = (message: unknown, ...rest: unknown[]) => {
    if (rest.at(-1) === 'DistributedScheduler' || rest.at(-1) === 'SchedulerEvents') write(String(message));
  };
  const warn = (message: unknown, ...rest: unknown[]) => {
    if (rest.at(-1) === 'DistributedScheduler') warnings.push(String(message));
    hear(message, ...rest);
  };
  const logger: LoggerService = { log: hear, warn, error: hear, debug: hear, verbose: hear, fatal: hear };
  const app = await Test.createTestingModule(metadata).setLogger(logger).compile();
  closing.push(() => app.close());
  await app.init();
  return { app, warnings };
}

const scheduler = (options = {}) =>
  DistributedSchedulerModule.forRoot({ connection: database.url, migrate: true, ...options });

describe('an application with jobs and without forRoot()', () => {
  it('is told once for each class, by name, that nothing of it runs, and what to import', async () => {
    @Injectable()
    class Reports {
      @DistributedCron(SELDOM, { name: 'daily' })
      @DistributedCron(SELDOM, { name: 'weekly' })
      send() {}

      @DistributedCronHandler('report')
      one() {}
    }
    @Injectable()
    class Pages {
      @DistributedCronPage('daily')
      page() {}
    }
    class OwnReports extends Reports {}
    const { warnings } = await appWithLog({
      providers: [Reports, Pages, OwnReports, { provide: 'again', useClass: Reports }],
    });
    expect(warnings.sort()).toEqual(
      ['OwnReports', 'Pages', 'Reports'].map((name) =>
        expect.stringMatching(
          new RegExp(
            `^${name} declares jobs, and .* no DistributedSchedulerModule: none of them runs\\. Import DistributedSchedulerModule\\.forRoot\\(\\)`,
          ),
        ),
      ),
    );
  });

  it('hears nothing of it with forRoot(), nor where a class is made by hand, as in a unit test', async () => {
    @Injectable()
    class Reports {
      @DistributedCron(SELDOM, { owner: 'x', overlap: 'forbid', missed: 'skip' })
      send() {}
    }
    const { warnings } = await appWithLog({ imports: [scheduler({ enabled: false })], providers: [Reports] });
    expect(warnings).toEqual([]);
    expect(Object.keys(new Reports())).toEqual([]);
  });

  it('is told of each application, also of the second in one process', async () => {
    @Injectable()
    class Reports {
      @DistributedCron(SELDOM, { owner: 'x', overlap: 'forbid', missed: 'skip' })
      send() {}
    }
    await appWithLog({ imports: [scheduler({ enabled: false })], providers: [Reports] });
    const { warnings } = await appWithLog({ providers: [Reports] });
    expect(warnings).toEqual([expect.stringContaining('Reports declares jobs')]);
  });
});

describe('a module that is loaded lazily', () => {
  @Injectable()
  class LazyJobs {
    @DistributedCron(SELDOM, { name: 'lazy' })
    run() {}
  }
  @Module({ providers: [LazyJobs] })
  class LazyModule {}

  it('is told that its jobs came too late to be scheduled, by the class, and what to do', async () => {
    const { app, warnings } = await appWithLog({ imports: [scheduler({ enabled: false })] });
    warnings.length = 0;
    await app.get(LazyModuleLoader).load(() => LazyModule);
    await app.get(LazyModuleLoader).load(() => LazyModule);
    expect(warnings).toEqual([
      expect.stringMatching(
        /^LazyJobs declares jobs, and was created after .*: none of them runs here\. .*import its module .*JobRegistry\.add/s,
      ),
    ]);
    expect(app.get(JobRegistry).names()).toEqual([]);
  });

  it('in the onModuleInit of another provider is in time', async () => {
    @Injectable()
    class Loader implements OnModuleInit {
      constructor(private readonly loader: LazyModuleLoader) {}
      async onModuleInit() {
        await this.loader.load(() => LazyModule);
      }
    }
    const { app, warnings } = await appWithLog({ imports: [scheduler({ enabled: false })], providers: [Loader] });
    expect(app.get(JobRegistry).names()).toEqual(['lazy']);
    expect(warnings.filter((line) => line.includes('LazyJobs'))).toEqual([]);
  });
});

describe('a generator is no handler', () => {
  it('and refused at the start, wherever it is decorated, each by its place', async () => {
    @Injectable()
    class Jobs {
      @DistributedCron(SELDOM, { name: 'export' })
      async *export() {}

      @DistributedCronHandler('report')
      *report() {}

      @DistributedCronPage('export')
      async *page() {}
    }
    const started = startApp(database, { providers: [Jobs] }, { enabled: false });
    await expect(started).rejects.toThrow(
      /Jobs\.export: .*generator.*\n.*Jobs\.report: .*generator.*\n.*Jobs\.page: .*generator/,
    );
  });

  it.each([
    [
      'an asynchronous generator',
      async function* () {
        yield 1;
      },
    ],
    [
      'a generator',
      function* () {
        yield 1;
      },
    ],
    ['a promise of one', async () => (async function* () {})()],
    ['an observable of one', () => of((function* () {})())],
  ])('and one that returns %s fails in words, for no attempt would do better', async (_what, made) => {
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'wrapped' })
      run() {
        return made();
      }
    }
    const own = await createTestDatabase();
    closing.push(() => own.drop());
    const app = await startApp(own, { providers: [Jobs] });
    const { error } = await nextEvent(app, 'run.dead');
    expect(error.message).toMatch(/Jobs\.run returned a generator, whose code has not run/);
    await closeApps();
  });

  it('but what can be iterated and has run, such as a list or an iterator of one, is a result', async () => {
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'list' })
      list() {
        return [1];
      }
      @DistributedCron('* * * * * *', { name: 'keys' })
      keys() {
        return new Map([[1, 1]]).keys();
      }
    }
    const app = await startApp(database, { providers: [Jobs] });
    await Promise.all([nextRun(app, 'list'), nextRun(app, 'keys')]);
  });
});

describe('what a provider asks of the scheduler in its onModuleInit', () => {
  it('works at the very first start, with no table there before', async () => {
    const own = await createTestDatabase();
    closing.push(() => own.drop());
    const done: unknown[] = [];
    @Injectable()
    class Setup implements OnModuleInit {
      constructor(
        private readonly registry: JobRegistry,
        private readonly scheduler: SchedulerService,
      ) {}

      @DistributedCronHandler('report')
      report() {}

      @DistributedCron(SELDOM, { name: 'seldom' })
      seldom() {}

      async onModuleInit() {
        await Promise.all([
          this.registry.add({ name: 'acme', cron: '* * * * * *', handler: 'report' }),
          this.scheduler.pause('seldom', { by: 'ada' }),
        ]);
        done.push((await this.scheduler.inventory()).map(({ name }) => name).sort());
        await this.scheduler.resume('seldom', { by: 'ada' });
        done.push(await this.scheduler.runNow('seldom', { by: 'ada' }));
      }
    }
    const app = await startApp(own, { providers: [Setup] }, { pollInterval: '1h' });
    expect(done).toEqual([['acme', 'seldom'], { jobName: 'seldom', fireTime: expect.any(Date) }]);
    await nextRun(app, 'acme');
  });

  it('is told in words in a constructor, where nothing is there yet', async () => {
    const own = await createTestDatabase();
    closing.push(() => own.drop());
    let told: Promise<unknown> = Promise.resolve();
    @Injectable()
    class Hasty {
      constructor(registry: JobRegistry) {
        told = registry.add({ name: 'acme', cron: SELDOM, handler: 'report' }).catch((error: unknown) => error);
      }
      @DistributedCronHandler('report')
      report() {}
    }
    await startApp(own, { providers: [Hasty] });
    expect(String(await told)).toMatch(/JobRegistry\.add was called before .*: call it in onModuleInit, or later/);
  });

  it('fails the start as the scheduler itself would, when the tables are missing', async () => {
    const own = await createTestDatabase();
    closing.push(() => own.drop());
    @Injectable()
    class Setup implements OnModuleInit {
      constructor(private readonly scheduler: SchedulerService) {}
      async onModuleInit() {
        await this.scheduler.inventory();
      }
    }
    await expect(startApp(own, { providers: [Setup] }, { migrate: false })).rejects.toThrow(
      /has none of the scheduler’s tables yet.*migrate: true/,
    );
  });
});

describe('a logger of the application that throws', () => {
  it('ends neither the process nor a loop nor a run, and what it was told goes to stderr', async () => {
    const unhandled: unknown[] = [];
    config.onUnhandledError = (error) => unhandled.push(error);
    const stderr = jest.spyOn(process.stderr, 'write').mockReturnValue(true);
    try {
      @Injectable()
      class Jobs {
        @DistributedCron('* * * * * *', { name: 'tick' })
        run() {}
      }
      const { app } = await appWithLog({ imports: [scheduler()], providers: [Jobs] }, () => {
        throw new Error('disk full');
      });
      app.get(SchedulerEvents).subscribe(() => {
        throw new Error('a listener');
      });
      await nextRun(app, 'tick');
      await nextRun(app, 'tick');
      await app.close();
      expect(unhandled).toEqual([]);
      const written = stderr.mock.calls.map(([text]) => String(text)).join('');
      expect(written).toMatch(/Scheduling 1 job as .*\n.*logger threw.*disk full/);
      expect(written).toMatch(/A listener of SchedulerEvents threw/);
    } finally {
      config.onUnhandledError = null;
      stderr.mockRestore();
      Logger.overrideLogger(false);
    }
  });
});
