import { Injectable, Module, type Type } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { DistributedCron, DistributedSchedulerModule, InvalidOptionsError } from '../../lib/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp, startModules } from './support/apps.js';

const SELDOM = '0 0 29 2 *';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterEach(closeApps);
afterAll(() => database.drop());

async function problemsOf(metadata: Parameters<typeof startApp>[1]): Promise<readonly string[]> {
  const error = await startApp(database, metadata, { enabled: false }).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(InvalidOptionsError);
  return (error as InvalidOptionsError).problems;
}

describe('the boot fails and names both places for', () => {
  it('two schedules on one method without names', async () => {
    @Injectable()
    class Invoices {
      @DistributedCron(SELDOM)
      @DistributedCron('@daily')
      export() {}
    }
    expect(await problemsOf({ providers: [Invoices] })).toEqual([
      'Job "Invoices.export" is declared by Invoices.export twice; names must be unique.',
    ]);
  });

  it('a former name that is still declared, or that two jobs had', async () => {
    @Injectable()
    class Reports {
      @DistributedCron(SELDOM, { name: 'weekly' })
      weekly() {}

      @DistributedCron(SELDOM, { name: 'daily', previously: ['weekly', 'nightly'] })
      daily() {}

      @DistributedCron(SELDOM, { name: 'hourly', previously: 'nightly' })
      hourly() {}
    }
    expect(await problemsOf({ providers: [Reports] })).toEqual([
      'Reports.daily: job "daily": previously: "weekly" is still declared, by Reports.weekly.',
      'Reports.hourly: job "hourly": previously: "nightly" goes on as job "daily" already.',
    ]);
  });

  it('two limits of one concurrency group', async () => {
    @Injectable()
    class Reports {
      @DistributedCron(SELDOM, { name: 'weekly', concurrencyGroup: { name: 'mails', limit: 2 } })
      weekly() {}

      @DistributedCron(SELDOM, { name: 'daily', concurrencyGroup: { name: 'mails', limit: 3 } })
      daily() {}

      @DistributedCron(SELDOM, { name: 'hourly', concurrencyGroup: { name: 'mails', limit: 2 } })
      hourly() {}
    }
    expect(await problemsOf({ providers: [Reports] })).toEqual([
      'Reports.daily: job "daily": concurrencyGroup "mails" has limit 3 here, and 2 for job "weekly" (Reports.weekly): give all its jobs the same.',
    ]);
  });

  it('two methods with one name', async () => {
    @Injectable()
    class Reports {
      @DistributedCron(SELDOM, { name: 'daily-report' })
      daily() {}
    }
    @Injectable()
    class Legacy {
      @DistributedCron(SELDOM, { name: 'daily-report' })
      report() {}
    }
    expect(await problemsOf({ providers: [Reports, Legacy] })).toEqual([
      'Job "daily-report" is declared by both Reports.daily and Legacy.report; names must be unique.',
    ]);
  });

  it('two methods with one name, also where one of them has another problem', async () => {
    @Injectable()
    class Reports {
      @DistributedCron('0 25 * * *', { name: 'daily-report' })
      daily() {}

      @DistributedCron(SELDOM, { name: 'daily-report' })
      report() {}

      @DistributedCron(SELDOM, { name: 5 as never })
      @DistributedCron(SELDOM, { name: 5 as never })
      nameless() {}
    }
    expect(await problemsOf({ providers: [Reports] })).toEqual([
      'Reports.daily: job "daily-report": Cron "0 25 * * *": hour 25 is outside 0-23.',
      'Job "daily-report" is declared by both Reports.daily and Reports.report; names must be unique.',
      'Reports.nameless: name: expected a text, got 5',
      'Reports.nameless: name: expected a text, got 5',
    ]);
  });

  it('two subclasses of a base that names the job', async () => {
    abstract class Sync {
      @DistributedCron(SELDOM, { name: 'sync' })
      run() {}
    }
    class Orders extends Sync {}
    class Customers extends Sync {}
    expect(await problemsOf({ providers: [Orders, Customers] })).toEqual([
      'Job "sync" is declared by both Orders.run and Customers.run; names must be unique.',
    ]);
  });

  it.each([['sync'], [undefined]])('a base and its subclass that are both provided, with the name %p', async (name) => {
    class Base {
      @DistributedCron(SELDOM, { ...(name && { name }) })
      run() {}
    }
    class Sub extends Base {
      override run() {}
    }
    const problems = await problemsOf({ providers: [Sub, Base] });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(/\bBase\.run\b/);
    expect(problems[0]).toMatch(/\bSub\.run\b/);
  });

  it('two classes of one name, by their modules', async () => {
    const report = (): Type => {
      class Report {
        @DistributedCron(SELDOM)
        run() {}
      }
      return Report;
    };
    @Module({ providers: [report()] })
    class Billing {}
    @Module({ providers: [report()] })
    class Shipping {}
    expect(await problemsOf({ imports: [Billing, Shipping] })).toEqual([
      'Job "Report.run" is declared by both Report.run (in Billing) and Report.run (in Shipping); names must be unique.',
    ]);
  });

  it('every bad job at once', async () => {
    class Many {
      @DistributedCron('0 25 * * *', { name: 'late' })
      hour() {}

      @DistributedCron('@daily', { timeZone: 'Europe/Berln', lease: '10s', renewEvery: '5s' })
      zone() {}

      @DistributedCron('@daily', { name: 'typo', leaseMS: 5 } as object)
      typo() {}

      @DistributedCron('@daily')
      fine() {}
    }
    const problems = await problemsOf({ providers: [Many] });
    expect(problems).toEqual([
      expect.stringMatching(/^Many\.hour: job "late": .*hour/),
      expect.stringMatching(/^Many\.zone: .*Europe\/Berln/),
      expect.stringMatching(/^Many\.zone: .*lease/),
      expect.stringMatching(/^Many\.typo: job "typo": Unknown option "leaseMS"/),
    ]);
  });
});

describe('B03 a second scheduler in one application', () => {
  const forRoot = () => DistributedSchedulerModule.forRoot({ connection: database.url, migrate: true, logging: false });
  const forRootAsync = () =>
    DistributedSchedulerModule.forRootAsync({
      useFactory: () => ({ connection: database.url, migrate: true, logging: false }),
    });

  const featureWith = (scheduler: ReturnType<typeof forRoot>): Type => {
    @Module({ imports: [scheduler] })
    class Feature {}
    return Feature;
  };
  const plainRoot = (imports: object[]): Type => {
    @Module({ imports: imports as Type[] })
    class Root {}
    return Root;
  };

  it.each([
    ['forRoot', forRoot, forRoot],
    ['forRootAsync', forRootAsync, forRootAsync],
    ['forRoot and forRootAsync', forRoot, forRootAsync],
  ])('is refused by naming who imports it: %s', async (_what, one, other) => {
    const starting = startModules({ imports: [plainRoot([one(), featureWith(other())])] });
    await expect(starting).rejects.toThrow(expect.objectContaining({ code: 'invalid-module' }));
    await expect(starting).rejects.toThrow(/imported 2 times \(by (Root and by Feature|Feature and by Root)\)/);
  });

  it('is refused when one module imports both', async () => {
    await expect(startModules({ imports: [plainRoot([forRoot(), forRoot()])] })).rejects.toThrow(
      /imported 2 times \(by Root and by Root\)/,
    );
  });

  it('is refused when a dynamic module brings it', async () => {
    @Module({})
    class Feature {}
    const feature = { module: Feature, imports: [forRoot()] };
    await expect(startModules({ imports: [plainRoot([forRoot(), feature])] })).rejects.toThrow(
      /imported 2 times \(by (Root and by Feature|Feature and by Root)\)/,
    );
  });

  it('leaves no connection behind', async () => {
    await expect(startModules({ imports: [plainRoot([forRoot(), featureWith(forRoot())])] })).rejects.toThrow(
      expect.objectContaining({ code: 'invalid-module' }),
    );
    const left = await database.query(
      `select pid from pg_stat_activity where datname = current_database() and application_name like 'nestjs-distributed-cron%'`,
    );
    expect(left).toEqual([]);
  });
});

describe('@DistributedCron is refused on', () => {
  const decorate = DistributedCron(SELDOM);

  it.each([
    ['a static method', () => decorate(class Jobs {}, 'run', { value: () => {} }), /Jobs\.run: it is static/],
    [
      'a method named by a symbol',
      () => decorate(new (class Jobs {})(), Symbol('run'), { value: () => {} }),
      /Jobs\.Symbol\(run\): it is named by a symbol/,
    ],
    ['a property', () => decorate(new (class Jobs {})(), 'run', undefined as never), /Jobs\.run: it is not a method/],
    [
      'a getter',
      () => decorate(new (class Jobs {})(), 'run', { get: () => () => {} } as never),
      /Jobs\.run: it is not a method/,
    ],
  ])('%s', (_what, declare, message) => {
    expect(declare).toThrow(expect.objectContaining({ code: 'invalid-decorator' }));
    expect(declare).toThrow(message);
  });
});
