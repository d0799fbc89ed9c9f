import 'reflect-metadata';
import type { INestApplicationContext, Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  DistributedCron,
  DistributedSchedulerModule,
  JobRegistry,
  type DistributedCronOptions,
} from '../../dist/lib/index.js';
import type { JobDefinition } from '../../dist/lib/options/job-definition.js';

/** A job as a decorator declares it. */
export interface DeclaredJob extends DistributedCronOptions {
  readonly name: string;
  readonly expression: string;
}

/** A provider with a method for each job, as a service would have it. @param handle what each of them does */
export function jobClass(jobs: readonly DeclaredJob[], handle: (...args: never[]) => unknown = () => {}): Type {
  class Jobs {}
  for (const { name, expression, ...options } of jobs) {
    const handler = { value: handle, configurable: true, writable: true };
    Object.defineProperty(Jobs.prototype, name, handler);
    DistributedCron(expression, { name, ...options })(Jobs.prototype, name, handler);
  }
  return Jobs;
}

/** So many jobs that are due each second, and that may overlap. */
export function jobsEachSecond(
  count: number,
  prefix: string,
  options: DistributedCronOptions = { overlap: 'allow' },
): DeclaredJob[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `${prefix}-${index}`,
    expression: '* * * * * *',
    ...options,
  }));
}

/** An application that takes no part: nothing but what a sample asks for is under way, and no handler starts. */
export async function bystander(
  url: string,
  declared: readonly DeclaredJob[],
): Promise<{ app: INestApplicationContext; jobs: JobDefinition[] }> {
  const Jobs = jobClass(declared);
  const scheduler = DistributedSchedulerModule.forRoot({
    connection: url,
    migrate: true,
    logging: false,
    enabled: false,
  });
  const app = await NestFactory.createApplicationContext(
    { module: Jobs, imports: [scheduler], providers: [Jobs] },
    { logger: false, abortOnError: false },
  );
  return {
    app,
    jobs: app
      .get(JobRegistry, { strict: false })
      .list()
      .map(({ definition }) => definition),
  };
}
