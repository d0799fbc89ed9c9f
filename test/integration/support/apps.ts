import type { ModuleMetadata } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { filter, firstValueFrom, timeout } from 'rxjs';
import {
  DistributedSchedulerModule,
  JobRegistry,
  SchedulerEvents,
  type DistributedSchedulerOptions,
  type EventOf,
  type SchedulerEvent,
} from '../../../lib/index.js';
import type { TestDatabase } from '../../support/database.js';

const apps: TestingModule[] = [];

/** An application with the scheduler on the test's database, started; `closeApps()` ends it. */
export async function startApp(
  database: TestDatabase,
  metadata: ModuleMetadata,
  options: DistributedSchedulerOptions = {},
): Promise<TestingModule> {
  const scheduler = DistributedSchedulerModule.forRoot({
    connection: database.url,
    migrate: true,
    logging: false,
    ...options,
  });
  return startModules({ ...metadata, imports: [scheduler, ...(metadata.imports ?? [])] });
}

/** An application of just these modules, started. */
export async function startModules(
  metadata: ModuleMetadata,
  beforeInit: (app: TestingModule) => void = () => {},
): Promise<TestingModule> {
  const app = await Test.createTestingModule(metadata).compile();
  apps.push(app);
  beforeInit(app);
  return app.init();
}

export async function closeApps(): Promise<void> {
  await Promise.all(apps.splice(0).map((app) => app.close()));
}

export function jobNames(app: TestingModule): string[] {
  return app.get(JobRegistry).names().sort();
}

/** The next event of a type that the condition holds for. */
export function nextEvent<Type extends SchedulerEvent['type']>(
  app: TestingModule,
  type: Type,
  condition: (event: EventOf<Type>) => boolean = () => true,
): Promise<EventOf<Type>> {
  return firstValueFrom(app.get(SchedulerEvents).of(type).pipe(filter(condition), timeout(50_000)));
}

/** The next completion of that job. */
export function nextRun(app: TestingModule, jobName: string): Promise<EventOf<'run.completed'>> {
  return nextEvent(app, 'run.completed', (event) => event.jobName === jobName);
}
