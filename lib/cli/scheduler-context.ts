import { NestFactory } from '@nestjs/core';
import { DistributedSchedulerModule } from '../distributed-scheduler.module.js';
import { SchedulerService } from '../operations/scheduler.service.js';
import { resolveSchedulerOptions } from '../options/resolve-options.js';
import { SchedulerDatabase } from '../database/scheduler-database.js';

/** Which scheduler a command is for. */
export interface Where {
  readonly schema: string;
  readonly migrate?: boolean;
}

/** What a command has of the scheduler. */
export interface Scheduler {
  readonly verbs: SchedulerService;
  readonly database: SchedulerDatabase;
}

/**
 * Opens the scheduler of a database without its application: an instance that claims nothing and declares no jobs.
 * @throws InvalidOptionsError without an address, SchedulerError where the tables are missing, or pg's errors
 */
export async function withScheduler<Result>(
  { schema, migrate = false }: Where,
  env: NodeJS.ProcessEnv,
  work: (scheduler: Scheduler) => Promise<Result>,
): Promise<Result> {
  // An embedded server, which an application may start, would be empty.
  const { connection } = resolveSchedulerOptions(
    { schema },
    { env: { ...env, NODE_ENV: 'production' }, embeddedInstalled: false },
  );
  // Of the process's own environment the scheduler says itself which variable named the address.
  const options = env !== process.env && connection.kind === 'options' ? { connection: connection.options } : {};
  const app = await NestFactory.createApplicationContext(
    DistributedSchedulerModule.forRoot({
      ...options,
      schema,
      migrate,
      enabled: false,
      logging: false,
      poolSize: 2,
      application: 'cli',
    }),
    { logger: false, abortOnError: false },
  );
  try {
    return await work({
      verbs: app.get(SchedulerService),
      database: app.get(SchedulerDatabase),
    });
  } finally {
    await app.close();
  }
}
