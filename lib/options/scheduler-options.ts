import type { FactoryProvider, InjectionToken, ModuleMetadata, Type } from '@nestjs/common';
import type { DataSource, DataSourceOptions } from 'typeorm';
import type { Duration } from '../domain/duration.js';
import type { AlertOptions } from './alert-options.js';
import type { DistributedCronOptions } from './job-options.js';

/** TypeORM's options for PostgreSQL. `type` may be left out. */
export type PostgresConnection = Partial<Extract<DataSourceOptions, { type: 'postgres' }>>;

/** Job options that can be given once for all jobs. */
export type JobDefaults = Omit<DistributedCronOptions, 'name' | 'previously' | 'owner'>;

/** Options of `DistributedSchedulerModule.forRoot()`. Durations are milliseconds or strings such as `'30s'`. */
export interface DistributedSchedulerOptions {
  /**
   * A PostgreSQL url or TypeORM's options for it. The module opens a small pool of its own. Entities named here are
   * known to the manager that `ReceiptService.once` hands to its effect.
   * @default `DATABASE_URL`, then the `PG*` variables, then (outside production) an embedded server
   */
  connection?: string | PostgresConnection;
  /**
   * The application's own data source. Receipts are written in its transactions, with its entities; claims use a small
   * pool of the module's own with the same settings, so that a drained pool starves nothing.
   */
  dataSource?: DataSource;
  /** The schema of `job_schedule`, `job_runs` and `receipts`. @default 'public' */
  schema?: string;
  /** Run the migrations at start-up, one replica at a time. @default false; true on the embedded server */
  migrate?: boolean;
  /** Job options for every job that does not set them itself. */
  defaults?: JobDefaults;
  /** Runs this instance has in hand at most; what does not fit is left to others. @default 20 */
  maxConcurrentRuns?: number;
  /** Connections of the pool that claims and completes runs. @default 3 */
  poolSize?: number;
  /** Connections of the pool that receipts use when no `dataSource` is given. @default 5 */
  receiptPoolSize?: number;
  /**
   * How long you keep `job_runs` and `receipts` before you drop their partitions. Shorter than a job's `catchUpWindow` and
   * a day is refused at start-up. Nothing is dropped by it. @default for ever
   */
  retention?: Duration;
  /** How long the ticker and the reaper sleep at most before they look again. @default '5s' */
  pollInterval?: Duration;
  /** How far this machine's clock may be from the database's before the event `clock.skewed` warns (from 100 ms). @default '5s' */
  maxClockSkew?: Duration;
  /** Who is told what a person should know, and how often. */
  alerts?: AlertOptions;
  /**
   * How long a start waits for a database that is down, restarting, full of connections or read-only. What does not pass
   * by itself, such as a wrong password, fails it at once. @default 0
   */
  waitForDatabase?: Duration;
  /** How long a stopping instance waits for its running handlers before it aborts them. @default '20s' */
  shutdownTimeout?: Duration;
  /** False: the instance registers its jobs and serves the injectable services, but claims nothing. @default true */
  enabled?: boolean;
  /** False: nothing is written to Nest's Logger; `SchedulerEvents` still tells everything. @default true */
  logging?: boolean;
}

/** What `useClass` and `useExisting` of `forRootAsync` provide. */
export interface DistributedSchedulerOptionsFactory {
  createDistributedSchedulerOptions(): Promise<DistributedSchedulerOptions> | DistributedSchedulerOptions;
}

/** Options of `DistributedSchedulerModule.forRootAsync()`: exactly one of `useFactory`, `useClass` and `useExisting`. */
export interface DistributedSchedulerAsyncOptions extends Pick<ModuleMetadata, 'imports'> {
  /** Its arguments are what `inject` names, in order. */
  useFactory?: (...args: any[]) => Promise<DistributedSchedulerOptions> | DistributedSchedulerOptions;
  inject?: FactoryProvider['inject'];
  useClass?: Type<DistributedSchedulerOptionsFactory>;
  useExisting?: InjectionToken<DistributedSchedulerOptionsFactory>;
}
