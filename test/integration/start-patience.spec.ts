import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { DistributedCron, DistributedSchedulerModule, type DistributedSchedulerOptions } from '../../lib/index.js';
import { SchedulerLifecycle } from '../../lib/lifecycle/scheduler.lifecycle.js';
import { PartitionsService } from '../../lib/maintenance/partitions.service.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { Wire } from '../support/wire.js';
import { closeApps, nextRun, startModules } from './support/apps.js';

let database: TestDatabase;
let wire: Wire;
beforeEach(async () => {
  database = await createTestDatabase();
  wire = await Wire.to(database.url);
});
afterEach(async () => {
  wire.mend();
  await closeApps();
  wire.end();
  await database.drop();
});

@Injectable()
class Jobs {
  @DistributedCron('* * * * * *', { name: 'tick' })
  tick() {}
}

/**
 * An application whose database goes away in the middle of its start: the pool has connected, the heartbeat has not.
 */
function starting(when: 'before the partitions' | 'after the partitions', options: DistributedSchedulerOptions = {}) {
  let cut = () => {};
  const gone = new Promise<void>((resolve) => (cut = resolve));
  let close = async () => {};
  const scheduler = DistributedSchedulerModule.forRoot({
    connection: wire.url,
    migrate: true,
    logging: false,
    ...options,
  });
  const started = startModules({ imports: [scheduler], providers: [Jobs] }, (app) => {
    close = () => app.get(SchedulerLifecycle, { strict: false }).onModuleDestroy();
    const partitions = app.get(PartitionsService, { strict: false });
    const makeAhead = partitions.makeAhead.bind(partitions);
    let first = true;
    partitions.makeAhead = async () => {
      const cutsNow = first;
      first = false;
      const leave = () => (wire.cut(), cut());
      if (cutsNow && when === 'before the partitions') leave();
      const next = await makeAhead();
      if (cutsNow && when === 'after the partitions') leave();
      return next;
    };
  });
  started.catch(() => {});
  return { started, gone, close: () => close() };
}

const WHEN = ['before the partitions', 'after the partitions'] as const;

describe('a database that goes away while the application starts', () => {
  it.each(WHEN)('%s, is waited for as the option says', async (when) => {
    const { started, gone } = starting(when, { waitForDatabase: '5m' });
    await gone;
    await sleep(500);
    wire.mend();
    await nextRun(await started, 'tick');
  });

  it('fails the start, in words, when nobody is to wait', async () => {
    const { started } = starting('after the partitions');
    await expect(started).rejects.toThrow(expect.objectContaining({ code: 'database-unreachable' }));
    await expect(started).rejects.toThrow(
      /heartbeat’s own connection\): .*\. The database cannot be reached: see that its server runs and that host and port are right\. waitForDatabase says how long a start waits for that/,
    );
  });

  it('keeps nobody waiting who closes the application meanwhile', async () => {
    const { started, gone, close } = starting('after the partitions', { waitForDatabase: '1h', shutdownTimeout: '1h' });
    await gone;
    await close();
    await started;
    wire.mend();
    expect(
      await database.query(
        `select from pg_stat_activity where datname = current_database() and application_name like 'nestjs%'`,
      ),
    ).toEqual([]);
  });
});
