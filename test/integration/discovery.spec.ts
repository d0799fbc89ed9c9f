import { Controller, Injectable, Module } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { CronRun, DistributedCron, DistributedSchedulerModule } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, jobNames, nextRun, startApp, startModules } from './support/apps.js';

/** Fires once in years: registered, never run. */
const SELDOM = '0 0 29 2 *';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

const quiet = { enabled: false } as const;

describe('one registration for', () => {
  it('each @DistributedCron of a method, private and inherited methods', async () => {
    abstract class Exports {
      @DistributedCron(SELDOM)
      inherited() {}
    }
    @Injectable()
    class Invoices extends Exports {
      @DistributedCron(SELDOM, { name: 'early' })
      @DistributedCron(SELDOM, { name: 'late' })
      export() {}

      @DistributedCron(SELDOM)
      protected hidden() {}
    }
    expect(jobNames(await startApp(database, { providers: [Invoices] }, quiet))).toEqual([
      'Invoices.hidden',
      'Invoices.inherited',
      'early',
      'late',
    ]);
  });

  it('an overriding method that is not decorated; a decorated one replaces the schedule of its base', async () => {
    class Base {
      @DistributedCron(SELDOM, { name: 'base-kept' })
      kept() {}

      @DistributedCron(SELDOM, { name: 'base-replaced' })
      replaced() {}
    }
    @Injectable()
    class Special extends Base {
      override kept() {}

      @DistributedCron(SELDOM, { name: 'replaced' })
      override replaced() {}
    }
    expect(jobNames(await startApp(database, { providers: [Special] }, quiet))).toEqual(['base-kept', 'replaced']);
  });

  it('each of two subclasses, named after them', async () => {
    abstract class Sync {
      @DistributedCron(SELDOM)
      run() {}
    }
    @Injectable()
    class Orders extends Sync {}
    @Injectable()
    class Customers extends Sync {}
    expect(jobNames(await startApp(database, { providers: [Orders, Customers] }, quiet))).toEqual([
      'Customers.run',
      'Orders.run',
    ]);
  });

  it('a controller, a factory, a value, and a class under another token', async () => {
    @Controller()
    class Web {
      @DistributedCron(SELDOM)
      run() {}
    }
    class Made {
      @DistributedCron(SELDOM)
      run() {}
    }
    class Given {
      @DistributedCron(SELDOM)
      run() {}
    }
    class Abstract {
      @DistributedCron(SELDOM)
      run() {}
    }
    class Concrete extends Abstract {}
    const providers = [
      { provide: 'made', useFactory: async () => new Made() },
      { provide: 'given', useValue: new Given() },
      { provide: Abstract, useClass: Concrete },
      { provide: 'plain', useValue: { run() {} } },
      { provide: 'bare', useValue: Object.create(null) as object },
      { provide: 'nothing', useValue: null },
    ];
    const app = await startApp(database, { providers, controllers: [Web] }, quiet);
    expect(jobNames(app)).toEqual(['Concrete.run', 'Given.run', 'Made.run', 'Web.run']);
  });

  it('a method that other decorators wrap, above and below', async () => {
    const ran: string[] = [];
    const wrapped =
      (name: string): MethodDecorator =>
      (_target, _method, descriptor: TypedPropertyDescriptor<any>) => {
        const original = descriptor.value as (...args: unknown[]) => unknown;
        return {
          ...descriptor,
          value: function (this: unknown, ...args: unknown[]) {
            ran.push(name);
            return original.apply(this, args);
          },
        } as never;
      };
    @Injectable()
    class Wrapped {
      @wrapped('above')
      @DistributedCron('* * * * * *')
      @wrapped('below')
      run(run: CronRun) {
        ran.push(run.jobName);
      }
    }
    const app = await startApp(database, { providers: [Wrapped] });
    await nextRun(app, 'Wrapped.run');
    expect(ran.slice(0, 3)).toEqual(['above', 'below', 'Wrapped.run']);
  });
});

describe('B03 one registration, and one run for each occurrence, of', () => {
  class Counted {
    static readonly runs: number[] = [];

    @DistributedCron('* * * * * *')
    run(run: CronRun) {
      Counted.runs.push(run.fireTime.getTime());
    }
  }
  @Module({ providers: [Counted], exports: [Counted] })
  class One {}
  @Module({ providers: [Counted] })
  class Other {}

  it.each([
    ['a class provided in two modules', { imports: [One, Other] }],
    ['an alias by useExisting', { providers: [Counted, { provide: 'alias', useExisting: Counted }] }],
    ['an alias of another module’s class', { imports: [One], providers: [{ provide: 'alias', useExisting: Counted }] }],
    ['a second token by useClass', { providers: [Counted, { provide: 'second', useClass: Counted }] }],
    ['a class that is provider and controller', { providers: [Counted], controllers: [Counted] }],
  ])('%s', async (_what, metadata) => {
    Counted.runs.length = 0;
    const app = await startApp(database, metadata);
    expect(jobNames(app)).toEqual(['Counted.run']);
    await nextRun(app, 'Counted.run');
    expect(new Set(Counted.runs).size).toBe(Counted.runs.length);
  });

  it('the same dynamic module imported twice', async () => {
    const scheduler = DistributedSchedulerModule.forRoot({
      connection: database.url,
      migrate: true,
      logging: false,
      enabled: false,
    });
    @Module({ imports: [scheduler], providers: [Counted] })
    class Feature {}
    expect(jobNames(await startModules({ imports: [scheduler, Feature] }))).toEqual(['Counted.run']);
  });
});
