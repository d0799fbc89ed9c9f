import { Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { NotFoundError, UsageError } from '../errors/errors.js';
import { DecoratedMethods } from '../jobs/distributed-cron.decorator.js';
import { JobRegistry } from '../jobs/job.registry.js';
import type { RegisteredJob } from '../jobs/known-jobs.js';
import { SchedulerService } from '../operations/scheduler.service.js';
import { isInterval } from '../cron/interval-schedule.js';
import { TIMEOUT_METADATA, type TimeoutDeclaration, timeoutName } from './decorators.js';

/** What there is of a job where `@nestjs/schedule` has a `CronJob`. */
export interface RegisteredCronJob {
  readonly name: string;
  readonly cronTime: { readonly source: string; readonly timeZone: string };
  /** When it fires next; null when never. */
  nextDate(): Date | null;
  nextDates(count: number): Date[];
}

/** What a `CronJob` has and this can't: a replica does not start or stop what runs on all of them. */
const INSTEAD: Readonly<Record<string, string>> = {
  start: 'SchedulerService.resume(name, { by })',
  stop: 'SchedulerService.pause(name, { by })',
  setTime: 'SchedulerService.override(name, { cron }, { by })',
  setCallback: 'a method with @Cron',
  addCallback: 'a method with @Cron',
  fireOnTick: 'SchedulerService.runNow(name, { by })',
  lastDate: 'SchedulerService.runs({ jobName: name })',
};

/**
 * The jobs that this instance can run, by the names that `@nestjs/schedule` gives the methods. Jobs are made at run time
 * with `JobRegistry`, and held back on all replicas with `SchedulerService`.
 */
@Injectable()
export class SchedulerRegistry {
  constructor(
    private readonly jobs: JobRegistry,
    private readonly scheduler: SchedulerService,
    private readonly modules: ModuleRef,
  ) {}

  /** A timeout is found by its name, with its deployment or without it. */
  doesExist(type: 'cron' | 'interval' | 'timeout', name: string): boolean {
    if (type === 'timeout')
      return this.getTimeouts().some((one) => one === name || one.startsWith(timeoutName(name, '').slice(0, -1)));
    return this.names(type).includes(name);
  }

  /** @throws NotFoundError */
  getCronJob(name: string): RegisteredCronJob {
    const job = this.named('cron').get(name);
    if (!job) throw this.unknown('cron', name);
    return this.view(job);
  }

  getCronJobs(): Map<string, RegisteredCronJob> {
    return new Map([...this.named('cron')].map(([name, job]) => [name, this.view(job)]));
  }

  getIntervals(): string[] {
    return this.names('interval');
  }

  /** Each with its deployment: `greet (1.2.0)`. */
  getTimeouts(): string[] {
    return this.names('timeout');
  }

  /** Takes out a job that was made at run time, on every replica. @throws NotFoundError, OperationRefusedError */
  deleteCronJob(name: string): Promise<void> {
    return this.jobs.remove(name);
  }

  /** As {@link deleteCronJob}. */
  deleteInterval(name: string): Promise<void> {
    return this.jobs.remove(name);
  }

  /** As {@link deleteCronJob}; the name is one of `getTimeouts()`. The deployment does not make it again. */
  deleteTimeout(name: string): Promise<void> {
    return this.jobs.remove(name);
  }

  /** @throws UsageError always: no replica has a timer for it */
  getInterval(name: string): never {
    throw instead('getInterval', `SchedulerService.nextFireTimes(${JSON.stringify(name)})`);
  }

  /** @throws UsageError always */
  getTimeout(name: string): never {
    throw instead('getTimeout', `SchedulerService.runs({ jobName: ${JSON.stringify(name)} })`);
  }

  /** @throws UsageError always: a job is the same on every replica, and a callback of this process is not */
  addCronJob(name: string, ..._: never[]): never {
    throw instead('addCronJob', `JobRegistry.add({ name: ${JSON.stringify(name)}, cron, handler })`);
  }

  /** @throws UsageError always */
  addInterval(name: string, ..._: never[]): never {
    throw instead('addInterval', `JobRegistry.add({ name: ${JSON.stringify(name)}, cron: 'every 90s', handler })`);
  }

  /** @throws UsageError always */
  addTimeout(name: string, ..._: never[]): never {
    throw instead('addTimeout', `JobRegistry.add({ name: ${JSON.stringify(name)}, cron, startAt, endAt, handler })`);
  }

  private names(kind: Kind): string[] {
    return [...this.named(kind).keys()];
  }

  private named(kind: Kind): Map<string, RegisteredJob> {
    const jobs = this.jobs.list().filter((job) => this.kindOf(job) === kind);
    return new Map(jobs.map((job) => [job.definition.name, job]));
  }

  private kindOf({ definition: { name, schedule, declaredBy } }: RegisteredJob): Kind {
    const timeouts = this.modules.get(DecoratedMethods, { strict: false }).find<TimeoutDeclaration>(TIMEOUT_METADATA);
    const isTimeout = timeouts.some(({ className, methodName, declarations }) => {
      const method = `${className}.${methodName}`;
      return (
        method === declaredBy &&
        declarations.some((one) => name.startsWith(timeoutName(one.name ?? method, '').slice(0, -1)))
      );
    });
    if (isTimeout) return 'timeout';
    return isInterval(schedule.expression) ? 'interval' : 'cron';
  }

  private unknown(kind: Kind, name: string): NotFoundError {
    return new NotFoundError(
      'unknown-job',
      `There is no ${kind} job "${name}" on this instance; there are ${this.names(kind).join(', ') || 'none'}.`,
    );
  }

  private view({ definition: { name, schedule } }: RegisteredJob): RegisteredCronJob {
    const view: RegisteredCronJob = {
      name,
      cronTime: { source: schedule.expression, timeZone: schedule.timeZone },
      nextDate: () => this.scheduler.nextFireTimes(name, { count: 1 })[0] ?? null,
      nextDates: (count) => this.scheduler.nextFireTimes(name, { count }),
    };
    for (const [method, way] of Object.entries(INSTEAD))
      Object.defineProperty(view, method, {
        value: () => {
          throw instead(`CronJob.${method}`, way);
        },
      });
    return view;
  }
}

type Kind = 'cron' | 'interval' | 'timeout';

function instead(method: string, way: string): UsageError {
  return new UsageError('not-distributed', `${method} is for one process; what holds on every replica is ${way}.`);
}
