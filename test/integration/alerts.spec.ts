import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable, Module } from '@nestjs/common';
import {
  ALERT_SINK,
  DistributedCron,
  InvalidOptionsError,
  SchedulerEvents,
  type Alert,
  type DistributedSchedulerOptions,
  type AlertSink,
} from '../../lib/index.js';
import { OverdueService } from '../../lib/maintenance/watches.service.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, nextRun, startApp } from './support/apps.js';

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

@Injectable()
class Failing {
  @DistributedCron('* * * * * *', { name: 'failing', maxAttempts: 1 })
  fail() {
    throw new Error('no such customer');
  }

  @DistributedCron('* * * * * *', { name: 'working' })
  work() {}
}

/** A sink that lets a test wait for what it gets. */
class Pager implements AlertSink {
  readonly got: Alert[] = [];
  private waiting: (() => void)[] = [];

  alert(alert: Alert): void {
    this.got.push(alert);
    for (const check of this.waiting) check();
  }

  of(kind: string, many = 1): Promise<Alert[]> {
    return new Promise((resolve) => {
      const check = () => {
        const found = this.got.filter((alert) => alert.kind === kind);
        if (found.length >= many) resolve(found);
      };
      this.waiting.push(check);
      check();
    });
  }
}

const start = (alerts?: NonNullable<DistributedSchedulerOptions['alerts']>, metadata = {}, options = {}) =>
  startApp(
    database,
    { providers: [Failing], ...metadata },
    { pollInterval: '200ms', ...(alerts && { alerts }), ...options },
  );

describe('an alert goes to', () => {
  it('the sink of the options, once for each run that died', async () => {
    const pager = new Pager();
    await start({ sink: pager });
    const [one, other] = await pager.of('run.dead', 2);
    expect(one).toMatchObject({
      severity: 'critical',
      jobName: 'failing',
      facts: { attempt: 1, error: { message: 'no such customer' } },
      text: expect.stringContaining('no such customer'),
    });
    expect(one!.fireTime).not.toEqual(other!.fireTime);
    expect(new Set(pager.got.map(({ key }) => key)).size).toBe(pager.got.length);
  });

  it('a sink by its class, with what it injects', async () => {
    const pager = new Pager();
    @Injectable()
    class Pages implements AlertSink {
      constructor(private readonly pager: Pager) {}
      alert(alert: Alert) {
        this.pager.alert(alert);
      }
    }
    await start({ sink: Pages }, { providers: [Failing, { provide: Pager, useValue: pager }, Pages] });
    await pager.of('run.dead');
  });

  it.each<[string, NonNullable<DistributedSchedulerOptions['alerts']> | undefined, symbol | string]>([
    ['a provider that the options name', { sink: 'PAGER' }, 'PAGER'],
    ['whoever provides ALERT_SINK', undefined, ALERT_SINK],
  ])('%s, in whatever module', async (_what, options, token) => {
    const pager = new Pager();
    @Module({ providers: [{ provide: token, useValue: pager }] })
    class PagerModule {}
    await start(options, { imports: [PagerModule] });
    await pager.of('run.dead');
  });

  it.each<[string, NonNullable<DistributedSchedulerOptions['alerts']>, RegExp]>([
    ['that nobody provides', { sink: 'PAGER' }, /alerts\.sink: no module provides PAGER/],
    ['that is none', { sink: Failing as never }, /alerts\.sink: expected something with a method alert/],
  ])('no sink %s: an error at the start', async (_what, options, message) => {
    const starting = start(options);
    await expect(starting).rejects.toThrow(InvalidOptionsError);
    await expect(starting).rejects.toThrow(message);
  });
});

describe('a sink that is not well', () => {
  it.each<[string, AlertSink['alert']]>([
    [
      'throws',
      () => {
        throw new Error('sink');
      },
    ],
    ['rejects', () => Promise.reject(new Error('sink'))],
    ['hangs', () => new Promise<void>(() => {})],
  ])('and %s hurts neither runs nor the close', async (_what, alert) => {
    let asked = 0;
    const app = await start({
      sink: {
        alert: (one) => {
          asked += 1;
          return alert(one);
        },
      },
      timeout: '1h',
    });
    const other = await nextEvent(app, 'run.dead');
    await nextEvent(app, 'run.dead', ({ fireTime }) => fireTime > other.fireTime);
    await nextRun(app, 'working');
    await closeApps();
    expect(asked).toBeGreaterThan(0);
  });
});

it('a flood becomes one alert that says how many there were, at the close at the latest', async () => {
  const pager = new Pager();
  const app = await start({ sink: pager, mostPerMinute: 1 });
  const dead: Date[] = [];
  app
    .get(SchedulerEvents)
    .of('run.dead')
    .subscribe(({ fireTime }) => dead.push(fireTime));
  const first = await nextEvent(app, 'run.dead');
  await nextEvent(app, 'run.dead', ({ fireTime }) => fireTime.getTime() >= first.fireTime.getTime() + 2_000);
  await closeApps();
  const [summary] = pager.got.filter(({ kind }) => kind === 'alerts.held');
  expect(pager.got.filter(({ kind }) => kind === 'run.dead')).toHaveLength(1);
  expect(summary).toMatchObject({ facts: { kind: 'run.dead' } });
  expect(summary!.facts['count']).toBeGreaterThanOrEqual(2);
});

it('what happens at the very end is delivered before the application is gone', async () => {
  const slow: Alert[] = [];
  const app = await start(
    {
      sink: {
        alert: async (alert) => {
          await new Promise((resolve) => setTimeout(resolve, 100));
          slow.push(alert);
        },
      },
    },
    { providers: [] },
  );
  app.get(SchedulerEvents).emit({ type: 'job.unreadable', jobName: 'x', problem: 'p' });
  await closeApps();
  expect(slow.map(({ kind }) => kind)).toEqual(['job.unreadable']);
});

describe('what every replica finds is told once:', () => {
  it('a job whose success is overdue', async () => {
    @Injectable()
    class Silent {
      @DistributedCron('0 0 29 2 *', { name: 'silent', expectSuccessWithin: '1s' })
      never() {}
    }
    const pagers = [new Pager(), new Pager()];
    const apps = await Promise.all(pagers.map((sink) => start({ sink }, { providers: [Silent] })));
    const told = await Promise.race(pagers.map((pager) => pager.of('job.overdue')));
    expect(told).toMatchObject([
      { jobName: 'silent', severity: 'critical', facts: { lastSuccessAt: null, expectedWithinMs: 1_000 } },
    ]);
    // Both have looked since.
    for (const app of apps) await app.get(OverdueService).look();
    await closeApps();
    expect(pagers.flatMap(({ got }) => got)).toHaveLength(1);
  });

  it('a job that no live instance declares any more', async () => {
    await start(undefined, { providers: [Failing] }, { enabled: false });
    await closeApps();
    const pagers = [new Pager(), new Pager()];
    const apps = await Promise.all(pagers.map((sink) => start({ sink }, { providers: [] })));
    await Promise.all(apps.map((app) => nextEvent(app, 'job.unregistered')));
    await Promise.race(pagers.map((pager) => pager.of('job.unregistered')));
    await closeApps();
    expect(pagers.flatMap(({ got }) => got)).toMatchObject([{ kind: 'job.unregistered' }]);
  });
});

it('partitions that run out are told, where the role can make none', async () => {
  await start();
  await closeApps();
  const role = `poor_${Math.random().toString(36).slice(2)}`;
  await database.query(
    `create role ${role} login password 'p'; grant select, insert, update, delete on all tables in schema public to ${role}`,
  );
  const { month } = (
    await database.query<{ month: string }>(
      `select to_char(now() at time zone 'UTC' + interval '1 month', 'YYYY_MM') as month`,
    )
  )[0]!;
  await database.query(`drop table job_runs_${month}, receipts_${month}`);
  const pager = new Pager();
  const url = Object.assign(new URL(database.url), { username: role, password: 'p' }).href;
  await startApp(
    { ...database, url },
    { providers: [Failing] },
    { migrate: false, alerts: { sink: pager, partitionsEndWithin: '31d' } },
  );
  const [alert] = await pager.of('partitions.ending');
  const [{ next }] = (await database.query<{ next: Date }>(
    `select date_trunc('month', now() at time zone 'UTC' + interval '1 month') at time zone 'UTC' as next`,
  )) as [{ next: Date }];
  expect(alert).toMatchObject({ severity: 'critical', facts: { until: next } });
  await closeApps();
  await database.query(`drop owned by ${role}; drop role ${role}`);
});
