import { Module, type DynamicModule, type Provider } from '@nestjs/common';
import { DiscoveryModule, ModulesContainer } from '@nestjs/core';
import { schedulerMigrationsIn } from '../migrations/index.js';
import { AlertsService } from './alerts/alerts.service.js';
import { DecoratedMethods } from './discovery/decorated-methods.js';
import { HandlerContexts } from './discovery/handler-contexts.js';
import { HandlerFactory } from './discovery/handler.factory.js';
import { PageExplorer } from './discovery/page.explorer.js';
import { JobExplorer } from './discovery/job.explorer.js';
import { JobRegistry } from './discovery/job.registry.js';
import { KnownJobs } from './discovery/known-jobs.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS, SCHEDULER_OPTIONS_INPUT } from './distributed-scheduler.tokens.js';
import { MissingForRootError } from './errors/missing-for-root.error.js';
import { SchedulerEvents } from './events/scheduler-events.js';
import { BypassWatch } from './execution/receipts/bypass-watch.js';
import { Cancellations } from './execution/cancellations.js';
import { ClaimService } from './execution/claim.service.js';
import { EndWriter } from './execution/end-writer.js';
import { ExecutorService } from './execution/executor.service.js';
import { ExternalEffects } from './execution/receipts/external-effects.js';
import { FanOutService } from './execution/pages/fan-out.service.js';
import { FlagAnswers } from './execution/flag-answers.js';
import { HandOver } from './execution/hand-over.js';
import { HeartbeatService } from './execution/heartbeat/heartbeat.service.js';
import { IdempotencyKeys } from './execution/receipts/idempotency-keys.js';
import { InFlightRuns } from './execution/in-flight-runs.js';
import { ReceiptBatches } from './execution/receipts/receipt-batches.js';
import { ReceiptBulk } from './execution/receipts/receipt-bulk.js';
import { ReceiptPlaces } from './execution/receipts/receipt-places.js';
import { ReceiptRefusals } from './execution/receipts/receipt-refusals.js';
import { ReceiptScripts } from './execution/receipts/receipt-scripts.js';
import { ReceiptWriter } from './execution/receipts/receipt-writer.js';
import { PageEndings } from './execution/pages/page-endings.service.js';
import { PageExecutor } from './execution/pages/page-executor.service.js';
import { PageHandOver } from './execution/pages/page-hand-over.js';
import { PageQueues } from './execution/pages/page-queues.js';
import { PagesInFlight } from './execution/pages/pages-in-flight.js';
import { ReceiptService } from './execution/receipts/receipt.service.js';
import { RunContext } from './execution/run-context.js';
import { GivenUpRuns } from './execution/given-up-runs.js';
import { LifelineProof } from './execution/lifeline-proof.js';
import { LostClaims } from './execution/lost-claims.js';
import { RunEndings } from './execution/run-endings.service.js';
import { RunStepsService } from './execution/run-steps.service.js';
import { TimeLimits } from './execution/time-limits.js';
import { WakeUps } from './execution/heartbeat/wake-ups.js';
import { Drain } from './lifecycle/drain.js';
import { Duties } from './lifecycle/duties.js';
import { HookOrder } from './lifecycle/hook-order.js';
import { KeepAlive } from './lifecycle/keep-alive.js';
import { PageWorkers } from './lifecycle/page-workers.js';
import { Registrar } from './lifecycle/registrar.js';
import { SchedulerLifecycle } from './lifecycle/scheduler.lifecycle.js';
import { SingleModule } from './lifecycle/single-module.js';
import { OwnLogger } from './logging/own-logger.js';
import { SchedulerLogger } from './logging/scheduler-logger.js';
import { CancelWatch } from './maintenance/cancel-watch.service.js';
import { ClockWatchService } from './maintenance/clock-watch.service.js';
import { CutOffCalls } from './maintenance/cut-off-calls.service.js';
import { DatabaseWatch } from './maintenance/database-watch.service.js';
import { FastFailoverService } from './maintenance/fast-failover.service.js';
import { OverdueService } from './maintenance/overdue.service.js';
import { PageKeeper } from './maintenance/page-keeper.service.js';
import { PartitionsService } from './maintenance/partitions.service.js';
import { PruningService } from './maintenance/pruning.service.js';
import { ReaperService } from './maintenance/reaper.service.js';
import { RetentionService } from './maintenance/retention.service.js';
import { Backfills } from './operations/backfills.service.js';
import { Cancels } from './operations/cancels.service.js';
import { DeadLetters } from './operations/dead-letters.service.js';
import { Deliveries } from './operations/deliveries.service.js';
import { DeadPages } from './operations/dead-pages.service.js';
import { Explanations } from './operations/explanations.service.js';
import { FireTimes } from './operations/fire-times.service.js';
import { Flags } from './operations/flags.service.js';
import { InDoubt } from './operations/in-doubt.service.js';
import { Inventory } from './operations/inventory.service.js';
import { ManualRuns } from './operations/manual-runs.service.js';
import { Overrides } from './operations/overrides.service.js';
import { Pauses } from './operations/pauses.service.js';
import { SchedulerService } from './operations/scheduler.service.js';
import { Skips } from './operations/skips.service.js';
import { asyncOptionsProviders } from './options/async-options.js';
import { resolveSchedulerOptions, type ResolvedSchedulerOptions } from './options/resolve-options.js';
import type { DistributedSchedulerAsyncOptions, DistributedSchedulerOptions } from './options/scheduler-options.js';
import { DatabaseTime } from './runtime/database-time.js';
import { Registration } from './runtime/registration.js';
import { createInstanceId } from './runtime/instance-id.js';
import { rootPackageName } from './runtime/root-package.js';
import { BackfillService } from './scheduling/backfill.service.js';
import { CatchUpService } from './scheduling/catch-up.service.js';
import { ClaimOrder } from './scheduling/claim-order.js';
import { FollowedSchedules } from './scheduling/followed-schedules.js';
import { OtherInstances } from './scheduling/other-instances.service.js';
import { OwnPresence } from './scheduling/own-presence.service.js';
import { Rewinding } from './scheduling/rewinding.service.js';
import { ScheduleFollower } from './scheduling/schedule-follower.service.js';
import { TickerService } from './scheduling/ticker.service.js';
import { Timelines } from './scheduling/timelines.js';
import { PollPace } from './scheduling/poll-pace.js';
import { UnregisteredJobs } from './scheduling/unregistered-jobs.service.js';
import { WaitingRuns } from './scheduling/waiting-runs.service.js';
import { WatermarkService } from './scheduling/watermark.service.js';
import { isEmbeddedPostgresInstalled } from './store/embedded/embedded-server.js';
import { SchedulerDatabase } from './store/scheduler-database.js';
import { STORE_PROVIDERS } from './store/store.providers.js';

const OPTIONS_PROVIDERS: Provider[] = [
  {
    provide: SCHEDULER_OPTIONS,
    inject: [SCHEDULER_OPTIONS_INPUT],
    useFactory: (given: DistributedSchedulerOptions | undefined) =>
      resolveSchedulerOptions(given, { env: process.env, embeddedInstalled: isEmbeddedPostgresInstalled(), packageName: rootPackageName() }),
  },
  { provide: INSTANCE_ID, useFactory: createInstanceId },
  {
    provide: SchedulerDatabase,
    inject: [SCHEDULER_OPTIONS, SingleModule],
    useFactory: async (options: ResolvedSchedulerOptions, single: SingleModule) => {
      await single.require();
      const tell = (text: string) => (options.logging ? new OwnLogger().warn(text) : undefined);
      return SchedulerDatabase.open(options, schedulerMigrationsIn(options.schema), tell);
    },
  },
  { provide: DatabaseTime, useFactory: () => new DatabaseTime() },
  { provide: LifelineProof, useFactory: () => new LifelineProof() },
];

const PUBLIC_SERVICES = [SchedulerEvents, JobRegistry, ClaimService, HeartbeatService, ReaperService, ReceiptService, FanOutService, SchedulerService, TickerService];

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
  ReceiptRefusals,
  ReceiptScripts,
  ReceiptWriter,
  ReceiptBatches,
  ReceiptBulk,
  RunEndings,
  EndWriter,
  IdempotencyKeys,
  ExternalEffects,
  RunStepsService,
  TimeLimits,
  WakeUps,
  LostClaims,
  GivenUpRuns,
  FlagAnswers,
  Cancellations,
  HandOver,
  ExecutorService,
  Timelines,
  ClaimOrder,
  CatchUpService,
  BackfillService,
  Backfills,
  WaitingRuns,
  WatermarkService,
  OwnPresence,
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
  Duties,
  Drain,
  KeepAlive,
  SchedulerLifecycle,
];

/** What operators do, one idea each. */
const OPERATIONS = [FireTimes, Pauses, Overrides, Flags, Skips, ManualRuns, Deliveries, Cancels, Explanations, Inventory, InDoubt];

/** Scheduled work inside the application, on every replica, once per occurrence. Import it once, in the root module. */
@Module({})
export class DistributedSchedulerModule {
  /** @throws MissingForRootError when no module of the application has the options */
  constructor(modules: ModulesContainer) {
    if (![...modules.values()].some(({ providers }) => providers.has(SCHEDULER_OPTIONS))) throw new MissingForRootError();
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
