import { Injectable } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { DistributedCron } from '../../lib/index.js';
import { Loop, type LoopOptions } from '../../lib/database/loop.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, startApp } from './support/apps.js';

let database: TestDatabase;
beforeAll(async () => void (database = await createTestDatabase()));
afterAll(async () => {
  await closeApps();
  await database.drop();
});

/** What no run waits for: it may take longer to notice that the database is back. */
const MAY_WAIT = ['PartitionsService', 'PruningService', 'RetentionService'];

it('every loop that a run may wait for tries again within a second while the database is gone, whatever pollInterval is', async () => {
  @Injectable()
  class Jobs {
    @DistributedCron('0 0 29 2 *', { name: 'seldom' })
    run() {}
  }
  const app = await startApp(database, { providers: [Jobs] }, { pollInterval: '1m' });
  const providers = [...app.get(ModulesContainer).values()].flatMap((module) => [...module.providers.values()]);
  const owners = providers.flatMap(({ instance }) =>
    instance
      ? Object.values(instance as object)
          .filter((value) => value instanceof Loop)
          .map((loop) => ({ owner: instance.constructor.name as string, loop }))
      : [],
  );
  const patient = owners.filter(({ loop }) => {
    const { maxRetryMs } = (loop as unknown as { options: LoopOptions }).options;
    return maxRetryMs !== undefined && maxRetryMs > 1_000;
  });
  expect(owners.length).toBeGreaterThan(12);
  expect([...new Set(patient.map(({ owner }) => owner))].sort()).toEqual(MAY_WAIT);
});
