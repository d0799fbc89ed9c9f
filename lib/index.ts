export { DistributedSchedulerModule } from './distributed-scheduler.module.js';
export { DistributedCron, DistributedCronHandler } from './jobs/distributed-cron.decorator.js';
export { DistributedCronPage } from './fan-out/page.explorer.js';
export { JobRegistry } from './jobs/job.registry.js';
export type { RegisteredJob } from './jobs/known-jobs.js';
export type { CronContextType, Handler } from './jobs/handler.factory.js';

export { CronRun, type CronRunFacts } from './runs/cron-run.js';
export type { RunCheckpoint, RunSteps, RunTransactionOptions, TransactionWork } from './runs/cron-run.js';
export type { Page, PageKey, PageProgress, PageStatus, PageTicket } from './fan-out/page.js';
export type { PageInput } from './fan-out/page.js';
export type { PageQueue, PageQueueContext, PageWork, PageWorker } from './fan-out/page.js';
export type { PageOptions } from './fan-out/page.js';
export { FanOutService, type Published } from './fan-out/fan-out.service.js';
export { ClaimService, type Candidate, type ClaimResult } from './runs/claim.service.js';
export type { ExternalCall, ExternalOutcome } from './receipts/external-effects.js';
export { HeartbeatService } from './runs/heartbeat/heartbeat.service.js';
export type { InFlightRun } from './runs/in-flight-runs.js';
export { ReceiptService, type OccurrenceOnceOptions, type OnceOptions } from './receipts/receipt.service.js';
export type { Effect, OnceOutcome } from './receipts/receipt-writer.js';
export type { EntityName } from './receipts/receipt-options.js';
export type { ReceiptIn } from './receipts/receipt-places.js';
export type {
  BatchEffect,
  EachEffect,
  EachOptions,
  EachOutcome,
  KeyedOptions,
  PendingOptions,
} from './receipts/receipt-options.js';
export type { Items } from './database/collections.js';
export type { ChangedPages } from './operations/dead-pages.service.js';
export type { DeadPageFilter, DeadPageOptions } from './operations/dead-pages.service.js';
export type { DeadPage, FoundPages } from './operations/dead-pages.service.js';
export type { DeliverOptions } from './operations/deliveries.service.js';
export type { Delivered } from './operations/delivered.js';
export type { FlagAnswer } from './runs/flag-answers.js';
export type { FlagState } from './operations/flags.service.js';
export type { ActionsOptions, InventoryEntry, JobState } from './operations/inventory.service.js';
export type { RunNowOptions } from './operations/manual-runs.service.js';
export type { ScheduleOverride } from './operations/overrides.service.js';
export type { PauseOptions } from './operations/pauses.service.js';
export type { SkipOptions } from './operations/skips.service.js';
export { ReaperService } from './runs/reaper.service.js';
export { SchedulerService } from './operations/scheduler.service.js';
export type { NextFireTimesOptions } from './operations/fire-times.service.js';
export type { BackfillPlan, BackfillProgress } from './catch-up/backfills.service.js';
export { TickerService } from './runs/ticker.service.js';

export { ALERT_SINK, PAGE_QUEUE } from './options/tokens.js';
export type { Alert, AlertKind, AlertSeverity, AlertSink } from './observe/alert.js';
export type { AlertOptions, AlertSinkOption } from './options/alert-options.js';
export type { DatabaseTrouble, DatabaseTroubleKind } from './errors/database-trouble.js';
export { SchedulerEvents } from './observe/scheduler-events.js';
export type {
  AttemptFacts,
  BackfillFacts,
  PageFacts,
  EventOf,
  HoldFacts,
  SchedulerEvent,
  SchedulerFact,
} from './observe/scheduler-event.js';

export type { BackfillOptions, CancelOptions } from './catch-up/backfill-options.js';
export type { BulkOptions, DeadLetterFilter, WaitingStatus } from './operations/dead-letter-filter.js';
export type { FoundRuns } from './operations/dead-letters.service.js';
export type { InDoubtFilter, Resolution } from './operations/in-doubt.service.js';
export type { OnceExternalOptions } from './receipts/receipt-options.js';
export type { BackoffOptions, DistributedCronOptions } from './options/job-options.js';
export type { RunTimeJob } from './options/run-time-job.js';
export type {
  DistributedSchedulerAsyncOptions,
  DistributedSchedulerOptions,
  DistributedSchedulerOptionsFactory,
  JobDefaults,
  PostgresConnection,
} from './options/scheduler-options.js';
export type { Duration } from './options/duration.js';
export type { StillOpen } from './options/retention.js';
export type { CallInDoubt, Explanation, ExplainedStart, ExplanationKind } from './operations/explanation-facts.js';
export type { FeatureFlags } from './options/feature-flags.js';
export type { Operator } from './options/operator-options.js';
export type { Cancelled } from './operations/cancels.service.js';
export type { KeptAction, LastRun } from './operations/inventory.service.js';
export type { ManualOverlap } from './operations/manual-runs.service.js';
export type { Pause } from './operations/pauses.service.js';
export { type InDoubtPolicy, neverConnected } from './receipts/receipt-options.js';
export type {
  Backoff,
  BackoffFunction,
  ConcurrencyGroup,
  FlagOffPolicy,
  ImplicitOption,
  JobDefinition,
  JobPolicies,
  JobTrigger,
  MissedPolicy,
  OverlapPolicy,
  RetryableFunction,
} from './options/job-definition.js';
export type { OwnedRun, RunKey, RunStatus, RunTrigger, SavedCheckpoint } from './options/run.js';
export type { StoredError } from './errors/stored-error.js';
export type { ClockChange } from './cron/clock-change-preview.js';
export { fireTimesBetween, nextFireTimes, previousFireTime, type Schedule, type ZoneOptions } from './cron/schedule.js';

export type { EffectInDoubt, ResolvedEffects } from './operations/in-doubt.service.js';
export { JobAction } from './operations/job-action.entity.js';
export { JobBackfill } from './catch-up/job-backfill.entity.js';
export { JobFlag } from './jobs/job-flag.entity.js';
export { JobInstance } from './jobs/job-instance.entity.js';
export { JobPage } from './fan-out/job-page.entity.js';
export { JobRun, type EarlierAttempt } from './runs/job-run.entity.js';
export { JobSchedule, type EarlierHold } from './jobs/job-schedule.entity.js';
export { Receipt, type ReceiptState } from './receipts/receipt.entity.js';
export { JobRunRepository } from './runs/job-run.repository.js';
export { ReceiptRepository } from './receipts/receipt.repository.js';
export type { ClaimVerdict, WaitingRun } from './runs/claim.js';

export { SchedulerError } from './errors/scheduler.error.js';
export { AfterRunError } from './errors/run.errors.js';
export { CancelledError } from './errors/run.errors.js';
export { ChangedMeanwhileError } from './errors/operator.errors.js';
export { DatabaseConnectionError } from './errors/database.errors.js';
export { DetachedPartitionError } from './errors/database.errors.js';
export { EffectNotDone } from './errors/receipt.errors.js';
export { DeliveryRefusedError } from './errors/operator.errors.js';
export type { DeliveryProblem } from './operations/delivery.js';
export { EffectsFailedError, type FailedEffect } from './errors/receipt.errors.js';
export { EmbeddedServerError } from './errors/database.errors.js';
export { GiveUp } from './errors/run.errors.js';
export { HeartbeatThreadError } from './errors/database.errors.js';
export { InvalidBackfillError } from './errors/operator.errors.js';
export { InvalidCalendarError } from './errors/cron.errors.js';
export { InvalidCheckpointError } from './errors/run.errors.js';
export { InvalidCronExpressionError } from './errors/cron.errors.js';
export { InvalidDecorationError } from './errors/job.errors.js';
export { InvalidEntityError } from './errors/receipt.errors.js';
export { InvalidJobsError } from './errors/job.errors.js';
export { InvalidOptionsError } from './errors/scheduler.error.js';
export { InvalidPagesError } from './errors/run.errors.js';
export { InvalidTimeZoneError } from './errors/cron.errors.js';
export { JobExistsError } from './errors/job.errors.js';
export { LeaseLostError, type LeaseLoss } from './errors/run.errors.js';
export { MissingForRootError } from './errors/job.errors.js';
export { MissingTablesError, NewerSchemaError } from './errors/database.errors.js';
export { MixedReceiptError } from './errors/receipt.errors.js';
export { NestedReceiptError } from './errors/receipt.errors.js';
export { OpenWorkError } from './errors/run.errors.js';
export { OperationBusyError } from './errors/operator.errors.js';
export { OtherDatabaseError } from './errors/run.errors.js';
export { OutsideRunError } from './errors/job.errors.js';
export { ReceiptTransactionError } from './errors/receipt.errors.js';
export { RenamedJobError } from './errors/job.errors.js';
export { RepeatedModuleError } from './errors/job.errors.js';
export { RetryLater } from './errors/run.errors.js';
export { RunStateError } from './errors/run.errors.js';
export { RunRefusedError } from './errors/operator.errors.js';
export { ShutdownError } from './errors/run.errors.js';
export { TimeoutError } from './errors/run.errors.js';
export { UnknownBackfillError } from './errors/operator.errors.js';
export { UnknownJobError } from './errors/job.errors.js';
export { UnknownRunError } from './errors/operator.errors.js';
export { TooEarlyError } from './errors/job.errors.js';
export { UnfitDatabaseError } from './errors/database.errors.js';
export { UnreadableDatesError } from './errors/database.errors.js';
export { UnusableDatabaseError } from './errors/database.errors.js';
