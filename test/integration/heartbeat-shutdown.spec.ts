import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Duration } from '../../lib/options/duration.js';
import { Injectable } from '@nestjs/common';
import { DistributedCron, DistributedSchedulerModule, SchedulerEvents } from '../../lib/index.js';
import { SchedulerLifecycle } from '../../lib/lifecycle/scheduler.lifecycle.js';
import { PartitionsService } from '../../lib/maintenance/partitions.service.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { Wire } from '../support/wire.js';
import { closeApps, startApp, startModules } from './support/apps.js';

let database: TestDatabase;
let wire: Wire;
beforeEach(async () => {
  database = await createTestDatabase();
  wire = await Wire.to(database.url);
});
afterEach(async () => {
  await closeApps();
  wire.end();
  await database.drop();
});

@Injectable()
class ManyJobs {
  @DistributedCron('* * * * *', { name: 'one' }) one() {}
  @DistributedCron('* * * * *', { name: 'two' }) two() {}
  @DistributedCron('* * * * *', { name: 'three' }) three() {}
}

describe('G13 closing is bounded', () => {
  it('when the database falls silent at the worst moment: all passes under way, and all jobs missed', async () => {
    await startApp(database, { providers: [ManyJobs] }, { enabled: false });
    await closeApps();
    await database.query(
      `update job_schedule set decided_until = now() - interval '1 h', effective_from = now() - interval '1 h'`,
    );
    const scheduler = DistributedSchedulerModule.forRoot({
      connection: wire.url,
      logging: false,
      shutdownTimeout: '500ms',
    });
    const app = await startModules({ imports: [scheduler], providers: [ManyJobs] }, (app) => {
      app
        .get(SchedulerEvents)
        .of('scheduler.started')
        .subscribe(() => wire.silence());
    });
    // The passes begin, and wait for answers.
    await new Promise((resolve) => setTimeout(resolve, 50));
    const closedAfter = Date.now();
    await app.close();
    expect(Date.now() - closedAfter).toBeLessThan(12_000);
  });

  it('and when it falls silent while nothing is under way', async () => {
    const app = await startApp({ ...database, url: wire.url }, { providers: [ManyJobs] }, { shutdownTimeout: '500ms' });
    await new Promise((resolve) => setTimeout(resolve, 200));
    wire.silence();
    const closedAfter = Date.now();
    await app.close();
    expect(Date.now() - closedAfter).toBeLessThan(12_000);
  });
});

describe('closing while the duties start leaves nothing running', () => {
  /** An application whose start stands still behind its partitions, before its heartbeat. */
  async function starting(shutdownTimeout: Duration) {
    let goOn = () => {};
    const gate = new Promise<void>((resolve) => (goOn = resolve));
    let reached = () => {};
    const standing = new Promise<void>((resolve) => (reached = resolve));
    let close = async () => {};
    const scheduler = DistributedSchedulerModule.forRoot({
      connection: database.url,
      migrate: true,
      logging: false,
      shutdownTimeout,
    });
    const started = startModules({ imports: [scheduler], providers: [ManyJobs] }, (app) => {
      const partitions = app.get(PartitionsService, { strict: false });
      const makeAhead = partitions.makeAhead.bind(partitions);
      partitions.makeAhead = async () => {
        const next = await makeAhead();
        reached();
        await gate;
        return next;
      };
      close = () => app.get(SchedulerLifecycle, { strict: false }).onModuleDestroy();
    });
    await standing;
    return { close, goOn, started };
  }

  const left = () =>
    database.query(
      `select application_name from pg_stat_activity where datname = current_database() and application_name like 'nestjs%'`,
    );

  it('when the start ends in time', async () => {
    const { close, goOn, started } = await starting('10s');
    const closing = close();
    goOn();
    await Promise.all([started, closing]);
    expect(await left()).toEqual([]);
  });

  it('when the start goes on after the close has ended', async () => {
    const { close, goOn, started } = await starting('50ms');
    await close();
    goOn();
    await started;
    expect(await left()).toEqual([]);
  });
});
