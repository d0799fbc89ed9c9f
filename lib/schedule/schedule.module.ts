import { type DynamicModule, Inject, Injectable, Module, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { DatabaseTime } from '../database/clock.js';
import { DistributedSchedulerModule } from '../distributed-scheduler.module.js';
import { InvalidOptionsError, OperationRefusedError } from '../errors/errors.js';
import { DecoratedMethods } from '../jobs/distributed-cron.decorator.js';
import { JobRegistry } from '../jobs/job.registry.js';
import { rootPackage } from '../lifecycle/instance.js';
import { OwnLogger } from '../observe/own-logger.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { SchedulerService } from '../operations/scheduler.service.js';
import type { DistributedSchedulerAsyncOptions, DistributedSchedulerOptions } from '../options/scheduler-options.js';
import { expressionOf, onlyAt, TIMEOUT_METADATA, type TimeoutDeclaration, timeoutName } from './decorators.js';
import { SchedulerRegistry } from './scheduler-registry.js';

/** Those of `DistributedSchedulerModule.forRoot()`, and what tells one deployment from the next. */
export interface ScheduleModuleOptions extends DistributedSchedulerOptions {
  /**
   * A text that is the same on all replicas of a deployment and another one with the next, such as an image tag: each
   * `@Timeout` runs once for it. At most 100 characters. @default the version in the application's package.json
   */
  readonly deployment?: string;
}

/** As `DistributedSchedulerModule.forRootAsync()` takes them, and what tells one deployment from the next. */
export interface ScheduleModuleAsyncOptions extends DistributedSchedulerAsyncOptions {
  /** See `ScheduleModuleOptions`. */
  readonly deployment?: string;
}

const DEPLOYMENT = Symbol('deployment');

/** An occurrence has to be still to come when its job is made. Milliseconds. */
const SOONEST_MS = 2_000;

/** Makes each timeout a job of one occurrence, whose name the database takes once: by whichever replica is first. */
@Injectable()
export class Timeouts implements OnModuleInit {
  constructor(
    private readonly modules: ModuleRef,
    private readonly registry: JobRegistry,
    private readonly scheduler: SchedulerService,
    private readonly events: SchedulerEvents,
    @Inject(DEPLOYMENT) private readonly deployment: string,
  ) {}

  onModuleInit(): void {
    const methods = this.modules.get(DecoratedMethods, { strict: false }).find<TimeoutDeclaration>(TIMEOUT_METADATA);
    // What does not take part has no say in when.
    this.events.of('scheduler.started').subscribe(async () => {
      for (const { className, methodName, declarations } of methods)
        for (const declaration of declarations) await this.plan(declaration, `${className}.${methodName}`);
    });
  }

  private async plan({ name, milliseconds, handler }: TimeoutDeclaration, method: string): Promise<void> {
    const jobName = timeoutName(name ?? method, this.deployment);
    try {
      // Also one that somebody took out: it does not come back.
      const jobs = await this.scheduler.inventory();
      if (!jobs.some((job) => job.name === jobName)) await this.add(jobName, handler, milliseconds);
      await this.planAgain(jobName, milliseconds);
    } catch (error) {
      new OwnLogger().error(
        `@Timeout on ${method} could not be planned`,
        error instanceof Error ? error.stack : String(error),
      );
    }
  }

  private async add(jobName: string, handler: string, milliseconds: number): Promise<void> {
    const at = this.in(milliseconds);
    const job = { name: jobName, handler, maxAttempts: 1, overlap: 'allow', missed: 'once' } as const;
    await this.registry.add({ ...job, cron: expressionOf(at), ...onlyAt(at) }).catch((error: unknown) => {
      if (!(error instanceof OperationRefusedError && error.code === 'job-exists')) throw error;
    });
  }

  /** A job that was made too late has no occurrence, and whoever made it may be gone. */
  private async planAgain(jobName: string, milliseconds: number): Promise<void> {
    for (;;) {
      const { schedule } = this.registry.get(jobName)?.definition ?? {};
      const passed = schedule?.previousBefore(this.now() + 1) ?? null;
      if (passed === null) return;
      if ((await this.scheduler.explain(jobName, new Date(passed))).kind !== 'before the schedule') return;
      const at = this.in(milliseconds);
      await this.registry.update(jobName, { cron: expressionOf(at), ...onlyAt(at) });
    }
  }

  /** By the database's clock. */
  private in(milliseconds: number): Date {
    return new Date(Math.ceil((this.now() + Math.max(milliseconds, SOONEST_MS)) / 1_000) * 1_000);
  }

  private now(): number {
    return this.modules.get(DatabaseTime, { strict: false }).now();
  }
}

/**
 * In the place of `ScheduleModule` of `@nestjs/schedule`: imports `DistributedSchedulerModule`, which is not to be
 * imported beside it.
 */
@Module({})
export class ScheduleModule {
  /** Every problem with the options is one `InvalidOptionsError` at start-up. */
  static forRoot({ deployment, ...options }: ScheduleModuleOptions = {}): DynamicModule {
    for (const name of ['cronJobs', 'intervals', 'timeouts'].filter((name) => name in options))
      throw new InvalidOptionsError([
        `ScheduleModule: ${name}: leave out what a replica is not to run with enabled: false, or @Cron with disabled: true`,
      ]);
    return assemble(DistributedSchedulerModule.forRoot(options), deployment);
  }

  /** Like `forRoot()`, with options that come from other providers. */
  static forRootAsync({ deployment, ...options }: ScheduleModuleAsyncOptions): DynamicModule {
    return assemble(DistributedSchedulerModule.forRootAsync(options), deployment);
  }
}

function assemble(scheduler: DynamicModule, deployment: string | undefined): DynamicModule {
  const told = deployment ?? rootPackage()?.version ?? 'unversioned';
  if (typeof told !== 'string' || told === '' || told.length > 100)
    throw new InvalidOptionsError(['ScheduleModule: deployment: expected a text of 1 to 100 characters']);
  return {
    module: ScheduleModule,
    global: true,
    imports: [scheduler],
    providers: [{ provide: DEPLOYMENT, useValue: told }, Timeouts, SchedulerRegistry],
    exports: [SchedulerRegistry],
  };
}
