import type { FactoryProvider, InjectionToken, ModuleMetadata, Provider, Type } from '@nestjs/common';
import type { DataSource, DataSourceOptions } from 'typeorm';
import type { Duration } from './duration.js';
import type { AlertOptions } from './alert-options.js';
import type { InterceptorOption } from './option-rules.js';
import type { DistributedCronOptions } from './job-definition.js';
import { SCHEDULER_OPTIONS_INPUT } from './tokens.js';
import { InvalidOptionsError } from '../errors/errors.js';

/** TypeORM's options for PostgreSQL. `type` may be left out. */
export type PostgresConnection = Partial<Extract<DataSourceOptions, { type: 'postgres' }>>;

/** Job options that can be given once for all jobs. */
export type JobDefaults = Omit<DistributedCronOptions, 'name' | 'previously' | 'owner' | 'startAt' | 'endAt'>;

/** What the application knows about its feature flags. */
export interface FeatureFlags {
  /**
   * Asked right before each claim of a job with a `flag`, once for all jobs of the batch that name it, and about once a
   * `pollInterval` while one with `flagOff: 'cancel'` runs. Anything but true is off; so is an error, and no answer
   * within a second.
   */
  isOn(flag: string): boolean | Promise<boolean>;
}

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
  /** The schema of the tables: `job_schedule`, `job_runs`, `receipts` and `job_instances`. @default 'public' */
  schema?: string;
  /**
   * Which application this is: what two that share a schema by mistake are told apart by. Replicas have the same.
   * @default the name in the nearest package.json above the working directory
   */
  application?: string;
  /** Run the migrations at start-up, one replica at a time. @default false; true on the embedded server */
  migrate?: boolean;
  /** Job options for every job that does not set them itself. */
  defaults?: JobDefaults;
  /**
   * Runs this instance has in hand at most; what does not fit is left to others. Of 2 and more, a quarter and at least
   * one is kept for live occurrences: what is caught up or backfilled never takes the last. @default 20
   */
  maxConcurrentRuns?: number;
  /** Connections of the pool that claims and completes runs. @default 3 */
  poolSize?: number;
  /** Connections of the pool that receipts use when no `dataSource` is given. @default 5 */
  receiptPoolSize?: number;
  /**
   * How long runs, their pages and their receipts are kept: a month's partitions are dropped when all of it is older.
   * Shorter than a job's `catchUpWindow` and a day, or than its `expectSuccessWithin` and the window, is refused at
   * start-up. From a day on. @default for ever
   */
  retention?: Duration;
  /**
   * How long it is kept what operators did (`job_actions`) and which backfills there were: from a day on. What still
   * holds, such as who paused a job, and a backfill that is active stay. @default '400d'
   */
  keepActions?: Duration;
  /**
   * How long the ticker, the reaper and what follows schedules sleep at most before they look again. An instance that
   * has not been heard of for four of these (for 2 s at least) is taken for gone. @default '5s'
   */
  pollInterval?: Duration;
  /**
   * How far this machine's clock may be from the database's before the event `clock.skewed` warns (from 100 ms).
   * @default '5s'
   */
  maxClockSkew?: Duration;
  /**
   * How long this process' event loop may stand still (a handler that computes, a synchronous call) before its
   * heartbeat's thread says so: on stderr, and in `job_instances.blocked_since`. From 100 ms. @default '5s'
   */
  blockedAfter?: Duration;
  /**
   * True: the runs of an instance that is gone are taken over in about 2 s, whatever their leases. The others see it
   * from a connection that ends with the process; whoever loses that connection for 1.1 s aborts its handlers. Costs a
   * connection, and some statements a second while runs are under way. Not behind a pooler. @default false
   */
  fastFailover?: boolean;
  /**
   * The file of the heartbeat's thread, an absolute path or a `file:` URL, for an application that is bundled together
   * with this package: `nestjs-distributed-cron/heartbeat-thread`, bundled as a file of its own.
   * @default beside the code of this package
   */
  heartbeatThread?: string | URL;
  /** Who is told what a person should know, and how often. */
  alerts?: AlertOptions;
  /**
   * How long a start waits for a database that is down, restarting, full of connections or read-only. What does not
   * pass by itself, such as a wrong password, fails it at once. @default 0
   */
  waitForDatabase?: Duration;
  /** How long a stopping instance waits for its running handlers before it aborts them. @default '20s' */
  shutdownTimeout?: Duration;
  /**
   * The application's own feature flags, for jobs with a `flag`: with `forRootAsync`, any service of the application. A
   * flag is on when neither this nor the table `job_flags` says that it is off.
   * @default the table alone
   */
  featureFlags?: FeatureFlags;
  /**
   * Around the handlers of all jobs and pages, the first one outermost, before what is bound on a handler: tracing,
   * tenants, error reports. A class that injects something is a provider of the application.
   * @default none
   */
  interceptors?: readonly InterceptorOption[];
  /**
   * True: a job that leaves its `owner`, `overlap` or `missed` implicit fails the start; otherwise one line names
   * them. @default false
   */
  strict?: boolean;
  /**
   * False: the instance registers its jobs and serves the injectable services, but claims nothing and takes no schedule
   * over: it follows the one that holds. @default true
   */
  enabled?: boolean;
  /** False: nothing is written to Nest's Logger; `SchedulerEvents` still tells everything. @default true */
  logging?: boolean;
}

/** What `useClass` and `useExisting` of `forRootAsync` provide. */
export interface DistributedSchedulerOptionsFactory {
  createDistributedSchedulerOptions(): Promise<DistributedSchedulerOptions> | DistributedSchedulerOptions;
}

/**
 * Options of `DistributedSchedulerModule.forRootAsync()`: exactly one of `useFactory`, `useClass` and `useExisting`.
 */
export interface DistributedSchedulerAsyncOptions extends Pick<ModuleMetadata, 'imports'> {
  /** Its arguments are what `inject` names, in order. */
  useFactory?: (...args: any[]) => Promise<DistributedSchedulerOptions> | DistributedSchedulerOptions;
  inject?: FactoryProvider['inject'];
  useClass?: Type<DistributedSchedulerOptionsFactory>;
  useExisting?: InjectionToken<DistributedSchedulerOptionsFactory>;
}

/** @throws InvalidOptionsError unless there is exactly one way to the options */
export function asyncOptionsProviders({
  useFactory,
  useClass,
  useExisting,
  inject,
}: DistributedSchedulerAsyncOptions): Provider[] {
  const ways = Object.entries({ useFactory, useClass, useExisting }).filter(([, way]) => way !== undefined);
  if (ways.length !== 1) {
    const given = ways.length === 0 ? 'none' : ways.map(([name]) => name).join(' and ');
    throw new InvalidOptionsError([
      `forRootAsync: expected one of useFactory, useClass and useExisting, got ${given}.`,
    ]);
  }
  if (useFactory) return [{ provide: SCHEDULER_OPTIONS_INPUT, inject: inject ?? [], useFactory }];
  const token = useExisting ?? useClass!;
  const options: Provider = {
    provide: SCHEDULER_OPTIONS_INPUT,
    inject: [token],
    useFactory: (factory: DistributedSchedulerOptionsFactory) => factory.createDistributedSchedulerOptions(),
  };
  return useClass ? [{ provide: useClass, useClass }, options] : [options];
}
