import { Module, type DynamicModule, type Provider } from '@nestjs/common';
import { DiscoveryModule, ModulesContainer } from '@nestjs/core';
import { schedulerMigrationsIn } from '../migrations/index.js';
import { AlertsService } from './observe/alerts.service.js';
import { DecoratedMethods } from './jobs/distributed-cron.decorator.js';
import { HandlerContexts, HandlerFactory } from './jobs/handler.factory.js';
import { PageExplorer } from './jobs/page.explorer.js';
import { JobExplorer } from './jobs/job.explorer.js';
import { JobRegistry } from './jobs/job.registry.js';
import { KnownJobs } from './jobs/known-jobs.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS, SCHEDULER_OPTIONS_INPUT } from './options/tokens.js';
import { UsageError } from './errors/errors.js';
import { SchedulerEvents } from './observe/scheduler-events.js';
import { BypassWatch } from './receipts/bypass-watch.js';
import { Cancellations, CancelWatch } from './runs/cancellations.js';
import { DueRuns } from './runs/agenda.js';
import { ClaimService, UnconfirmedClaims } from './runs/claim.service.js';
import { EndWriter } from './runs/end-writer.js';
import { ExecutorService, RunHandlers, RunStarter } from './runs/executor.service.js';
import { ExternalEffects } from './receipts/external-effects.js';
import { FanOutService } from './fan-out/fan-out.service.js';
import { FlagAnswers } from './runs/flag-answers.js';
import { HeartbeatService } from './runs/heartbeat/heartbeat.service.js';
import { InFlightRuns } from './runs/in-flight-runs.js';
import { ReceiptBatches } from './receipts/receipt-batches.js';
import { ReceiptPlaces } from './receipts/receipt-places.js';
import { ReceiptWriter } from './receipts/receipt-writer.js';
import { PageEndings } from './fan-out/page-endings.service.js';
import { PageExecutor, PagesInFlight } from './fan-out/page-executor.service.js';
import { PageHandOver, PageQueues, PageWorkers } from './fan-out/page-queues.js';
import { ReceiptService } from './receipts/receipt.service.js';
import { RunContext, SchedulerContext } from './runs/run-context.js';
import { GivenUpRuns, FastFailoverService } from './runs/fast-failover.service.js';
import { LivenessProof } from './runs/liveness-proof.js';
import { AttemptEnds, RunEndings } from './runs/run-endings.service.js';
import { RunStepsService } from './runs/run-steps.service.js';
import { WakeUps } from './observe/wake-ups.js';
import { Drain, KeepAlive } from './lifecycle/drain.js';
import { Duties, DUTIES_PROVIDER } from './lifecycle/duties.js';
import { HookOrder, SingleModule } from './lifecycle/single-module.js';
import { LooksBesides, Registrar, SchedulerLifecycle } from './lifecycle/scheduler.lifecycle.js';
import { OwnLogger } from './observe/own-logger.js';
import { SchedulerLogger } from './observe/scheduler-logger.js';
import { ClockWatchService, DatabaseWatch, OverdueService } from './maintenance/watches.service.js';
import { CutOffCalls, PruningService } from './maintenance/pruning.service.js';
import { PageKeeper } from './fan-out/page-keeper.service.js';
import { PartitionsService, RetentionService } from './maintenance/partitions.service.js';
import { ReaperService } from './runs/reaper.service.js';
import { Backfills } from './catch-up/backfill-verbs.service.js';
import { Cancels, ManualRuns } from './operations/run-requests.service.js';
import { DeadLetters } from './operations/dead-letters.service.js';
import { Deliveries } from './operations/deliveries.service.js';
import { DeadPages } from './operations/dead-pages.service.js';
import { PlannedTimes } from './operations/planned-times.service.js';
import { Holds } from './operations/holds.service.js';
import { InDoubt } from './operations/in-doubt.service.js';
import { History } from './operations/history.service.js';
import { Inventory } from './operations/inventory.service.js';
import { ScheduleEdits } from './operations/schedule-edits.service.js';
import { SchedulerService } from './operations/scheduler.service.js';
import {
  asyncOptionsProviders,
  type DistributedSchedulerAsyncOptions,
  type DistributedSchedulerOptions,
} from './options/scheduler-options.js';
import { resolveSchedulerOptions, type ResolvedSchedulerOptions } from './options/resolve-options.js';
import { DatabaseTime } from './database/clock.js';
import { Registration } from './database/registration.js';
import { createInstanceId, rootPackage } from './lifecycle/instance.js';
import { BackfillService } from './catch-up/backfill-feed.service.js';
import { CatchUpService } from './catch-up/catch-up.service.js';
import { ClaimOrder } from './runs/claim-order.js';
import { FollowedSchedules } from './jobs/followed-schedules.js';
import { OtherInstances, InstanceRegistration, UnregisteredJobs } from './jobs/live-instances.service.js';
import { Rewinding, WatermarkService } from './jobs/watermark.service.js';
import { ScheduleFollower, PollPace } from './jobs/schedule-follower.service.js';
import { TickerService } from './runs/ticker.service.js';
import { JobCursors } from './jobs/job-cursors.js';
import { WaitingRuns } from './runs/waiting-runs.service.js';
import { isEmbeddedPostgresInstalled } from './database/embedded-server.js';
import { SchedulerDatabase } from './database/scheduler-database.js';
import { ENTITIES, STORE_PROVIDERS } from './lifecycle/providers.js';

const OPTIONS_PROVIDERS: Provider[] = [
  {
    provide: SCHEDULER_OPTIONS,
    inject: [SCHEDULER_OPTIONS_INPUT],
    useFactory: (given: DistributedSchedulerOptions | undefined) =>
      resolveSchedulerOptions(given, {
        env: process.env,
        embeddedInstalled: isEmbeddedPostgresInstalled(),
        packageName: rootPackage()?.name ?? null,
      }),
  },
  { provide: INSTANCE_ID, useFactory: createInstanceId },
  {
    provide: SchedulerDatabase,
    inject: [SCHEDULER_OPTIONS, SingleModule],
    useFactory: async (options: ResolvedSchedulerOptions, single: SingleModule) => {
      await single.require();
      const tell = (text: string) => (options.logging ? new OwnLogger().warn(text) : undefined);
      const tables = { entities: ENTITIES, migrations: schedulerMigrationsIn(options.schema) };
      return SchedulerDatabase.open(options, tables, tell);
    },
  },
  { provide: DatabaseTime, useFactory: () => new DatabaseTime() },
  { provide: LivenessProof, useFactory: () => new LivenessProof() },
];

const PUBLIC_SERVICES = [
  SchedulerEvents,
  JobRegistry,
  ClaimService,
  HeartbeatService,
  ReaperService,
  ReceiptService,
  FanOutService,
  SchedulerService,
  SchedulerContext,
  TickerService,
];

const SERVICES: Provider[] = [
  ...PUBLIC_SERVICES,
  HandlerContexts,
  HandlerFactory,
  DecoratedMethods,
  JobExplorer,
  PageExplorer,
  KnownJobs,
  InFlightRuns,
  PagesInFlight,
  PageQueues,
  PageHandOver,
  PageEndings,
  PageExecutor,
  PageKeeper,
  PageWorkers,
  RunContext,
  BypassWatch,
  ReceiptPlaces,
  ReceiptWriter,
  ReceiptBatches,
  AttemptEnds,
  RunEndings,
  EndWriter,
  ExternalEffects,
  RunStepsService,
  WakeUps,
  UnconfirmedClaims,
  GivenUpRuns,
  FlagAnswers,
  Cancellations,
  RunHandlers,
  ExecutorService,
  RunStarter,
  DueRuns,
  JobCursors,
  ClaimOrder,
  CatchUpService,
  BackfillService,
  Backfills,
  WaitingRuns,
  WatermarkService,
  InstanceRegistration,
  OtherInstances,
  FollowedSchedules,
  Rewinding,
  ScheduleFollower,
  UnregisteredJobs,
  PollPace,
  PartitionsService,
  ClockWatchService,
  DeadLetters,
  DeadPages,
  DatabaseWatch,
  FastFailoverService,
  OverdueService,
  CancelWatch,
  PruningService,
  RetentionService,
  CutOffCalls,
  AlertsService,
  SchedulerLogger,
  SingleModule,
  HookOrder,
  Registration,
  Registrar,
  LooksBesides,
  Duties,
  DUTIES_PROVIDER,
  Drain,
  KeepAlive,
  SchedulerLifecycle,
];

/** What operators do, one idea each. */
const OPERATIONS = [PlannedTimes, Holds, ScheduleEdits, ManualRuns, Deliveries, Cancels, Inventory, History, InDoubt];

/** Scheduled work inside the application, on every replica, once per occurrence. Import it once, in the root module. */
@Module({})
export class DistributedSchedulerModule {
  /** @throws UsageError when no module of the application has the options */
  constructor(modules: ModulesContainer) {
    if (![...modules.values()].some(({ providers }) => providers.has(SCHEDULER_OPTIONS)))
      throw new UsageError(
        'invalid-module',
        'DistributedSchedulerModule is imported as it is, and so schedules nothing: import DistributedSchedulerModule.forRoot().',
      );
  }

  /**
   * Every problem with the options is one `InvalidOptionsError` at start-up.
   * @param options without any: `DATABASE_URL`, the `PG*` variables or, outside production, an embedded server
   */
  static forRoot(options?: DistributedSchedulerOptions): DynamicModule {
    return this.assemble([{ provide: SCHEDULER_OPTIONS_INPUT, useValue: options }]);
  }

  /** Like `forRoot()`, with options that come from other providers. */
  static forRootAsync(options: DistributedSchedulerAsyncOptions): DynamicModule {
    return { ...this.assemble(asyncOptionsProviders(options)), imports: [DiscoveryModule, ...(options.imports ?? [])] };
  }

  private static assemble(input: Provider[]): DynamicModule {
    return {
      module: DistributedSchedulerModule,
      global: true,
      imports: [DiscoveryModule],
      providers: [...input, ...OPTIONS_PROVIDERS, ...STORE_PROVIDERS, ...SERVICES, ...OPERATIONS],
      exports: [...PUBLIC_SERVICES, ...OPERATIONS],
    };
  }
}
