import {
  Injectable,
  Module,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleDestroy,
} from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { CronRun, DistributedCron, SchedulerEvents, ShutdownError, type SchedulerEvent } from '../../lib/index.js';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../cluster/harness/eventually.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, jobNames, nextEvent, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.query('create table effects (job text, fire_time timestamptz)');
});
afterEach(closeApps);
afterAll(() => database.drop());

const HANDLER_MS = 1_500;

@Injectable()
class Slow {
  static starts = 0;

  @DistributedCron('* * * * * *', { name: 'slow', overlap: 'allow' })
  async run({ jobName, fireTime }: CronRun) {
    Slow.starts += 1;
    await sleep(HANDLER_MS);
    await database.query('insert into effects values ($1, $2)', [jobName, fireTime]);
  }
}

describe('B33 closing while a handler runs', () => {
  it('resolves after its effect, and starts nothing more', async () => {
    const app = await startApp(database, { providers: [Slow] });
    const stories: SchedulerEvent['type'][] = [];
    await nextEvent(app, 'run.started');
    app.get(SchedulerEvents).subscribe(({ type }) => stories.push(type));
    const closing = app.close();
    await nextEvent(app, 'scheduler.stopping');
    const startsAtClose = Slow.starts;
    await closing;
    expect(Slow.starts).toBe(startsAtClose);
    const rows = await database.query(
      `select status, exists (select from effects where job = job_name and effects.fire_time = run.fire_time) as effect from job_runs run where job_name = 'slow'`,
    );
    expect(rows).toEqual(Array.from({ length: startsAtClose }, () => ({ status: 'done', effect: true })));
    expect(stories.filter((type) => type === 'run.started')).toEqual([]);
    expect(stories.at(-1)).toBe('scheduler.stopped');
  });

  it('leaves to it what other modules and its own class let go when they are destroyed', async () => {
    const story: string[] = [];
    @Injectable()
    class Connection implements OnModuleDestroy, OnApplicationShutdown {
      onModuleDestroy() {
        story.push('connection closed');
      }

      onApplicationShutdown() {
        story.push('shut down');
      }
    }
    @Module({ providers: [Connection], exports: [Connection] })
    class ConnectionModule {}
    @Injectable()
    class Export implements OnModuleDestroy {
      constructor(readonly connection: Connection) {}

      @DistributedCron('* * * * * *', { name: 'export' })
      async run() {
        story.push('begin');
        await sleep(300);
        story.push('end');
      }

      onModuleDestroy() {
        story.push('class destroyed');
      }
    }
    const app = await startApp(database, { imports: [ConnectionModule], providers: [Export] });
    await nextEvent(app, 'run.started', ({ jobName }) => jobName === 'export');
    await app.close();
    expect(story).toEqual(['begin', 'end', 'class destroyed', 'connection closed', 'shut down']);
  });

  it('aborts it when the time is over, and hands the run back', async () => {
    let reason: unknown;
    @Injectable()
    class Stubborn {
      @DistributedCron('* * * * * *', { name: 'stubborn' })
      async run({ signal }: CronRun) {
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        reason = signal.reason;
        signal.throwIfAborted();
      }
    }
    const app = await startApp(database, { providers: [Stubborn] }, { shutdownTimeout: '100ms' });
    const { fireTime } = await nextEvent(app, 'run.started', ({ jobName }) => jobName === 'stubborn');
    await app.close();
    expect(reason).toBeInstanceOf(ShutdownError);
    const [run] = await database.query(
      `select status, attempt, releases, reason from job_runs where job_name = 'stubborn' and fire_time = $1`,
      [fireTime],
    );
    expect(run).toEqual({ status: 'queued', attempt: 1, releases: 1, reason: 'released by a stopping instance' });
  });
});

describe('B33 closing', () => {
  @Injectable()
  class Seldom {
    @DistributedCron('0 0 29 2 *', { name: 'seldom' })
    run() {}
  }

  const connections = () =>
    database.query(
      `select pid from pg_stat_activity where datname = current_database() and application_name like 'nestjs-distributed-cron%'`,
    );

  it('while idle leaves no connection', async () => {
    const app = await startApp(database, { providers: [Seldom] });
    expect((await connections()).length).toBeGreaterThan(0);
    await app.close();
    // The server forgets a connection a moment after it was closed.
    await eventually('no connection', async () => (await connections()).length === 0, { seen: connections });
  });

  it('twice, at once and later, is closing once', async () => {
    const app = await startApp(database, { providers: [Seldom] });
    const stopped: SchedulerEvent[] = [];
    app
      .get(SchedulerEvents)
      .of('scheduler.stopped')
      .subscribe((event) => stopped.push(event));
    await Promise.all([app.close(), app.close()]);
    await app.close();
    expect(stopped).toHaveLength(1);
  });

  it('while the database is gone, and a handler with it, ends with the lease', async () => {
    const lost = await createTestDatabase();
    @Injectable()
    class Working {
      @DistributedCron('* * * * * *', { name: 'working', lease: '2s' })
      run({ signal }: CronRun) {
        return new Promise((resolve) => signal.addEventListener('abort', resolve));
      }
    }
    const app = await startApp(lost, { providers: [Working] });
    await nextEvent(app, 'run.started');
    const lease = nextEvent(app, 'lease.lost');
    await lost.drop();
    await app.close();
    expect((await lease).cause).toBe('expired');
  });
});

describe('starting', () => {
  it('works without a single job', async () => {
    const app = await startApp(database, {});
    expect(jobNames(app)).toEqual([]);
  });

  it('comes when the rest of the application has started', async () => {
    const story: string[] = [];
    @Injectable()
    class Late implements OnApplicationBootstrap {
      constructor(readonly events: SchedulerEvents) {
        events.of('scheduler.started').subscribe(() => story.push('scheduler'));
      }

      async onApplicationBootstrap() {
        await sleep(50);
        story.push('application');
      }
    }
    await startApp(database, { providers: [Late] });
    expect(story).toEqual(['application', 'scheduler']);
  });
});
