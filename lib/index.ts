export { DistributedSchedulerModule } from './distributed-scheduler.module.js';
export { DistributedCron, DistributedCronHandler } from './discovery/distributed-cron.decorator.js';
export { DistributedCronPage } from './discovery/distributed-cron-page.decorator.js';
export { JobRegistry } from './discovery/job.registry.js';
export type { RegisteredJob } from './discovery/known-jobs.js';
export type { CronContextType, Handler } from './discovery/handler.factory.js';

export { CronRun, type CronRunFacts } from './domain/cron-run.js';
export type { Page, PageKey, PageProgress, PageStatus, PageTicket } from './domain/page.js';
export type { PageInput } from './domain/page-input.js';
export type { PageQueue, PageQueueContext, PageWork, PageWorker } from './domain/page-queue.js';
export type { PageOptions } from './options/page-options.js';
export { FanOutService, type Published } from './execution/fan-out.service.js';
export { ClaimService, type Candidate, type ClaimResult } from './execution/claim.service.js';
export { HeartbeatService } from './execution/heartbeat.service.js';
export type { InFlightRun } from './execution/in-flight-runs.js';
export { ReceiptService, type Effect, type OnceOptions, type OnceOutcome } from './execution/receipt.service.js';
export type { ChangedPages } from './operations/dead-pages.service.js';
export type { DeadPageFilter, DeadPageOptions } from './options/page-filter.js';
export type { DeadPage, FoundPages } from './store/page-letters.store.js';
export { Cancels } from './operations/cancels.service.js';
export { Explanations } from './operations/explanations.service.js';
export { Flags } from './operations/flags.service.js';
export { Inventory, type ActionsOptions, type InventoryEntry, type JobState } from './operations/inventory.service.js';
export { ManualRuns, type RunNowOptions } from './operations/manual-runs.service.js';
export { Overrides, type ScheduleOverride } from './operations/overrides.service.js';
export { Pauses, type PauseOptions } from './operations/pauses.service.js';
export { Skips, type SkipOptions } from './operations/skips.service.js';
export { ReaperService } from './maintenance/reaper.service.js';
export { SchedulerService } from './operations/scheduler.service.js';
export type { NextFireTimesOptions } from './operations/fire-times.service.js';
export type { BackfillPlan, BackfillProgress } from './operations/backfill-report.js';
export { TickerService } from './scheduling/ticker.service.js';

export { ALERT_SINK, PAGE_QUEUE } from './distributed-scheduler.tokens.js';
export type { Alert, AlertKind, AlertSeverity, AlertSink } from './domain/alert.js';
export type { AlertOptions, AlertSinkOption } from './options/alert-options.js';
export type { DatabaseTrouble, DatabaseTroubleKind } from './domain/database-trouble.js';
export { SchedulerEvents } from './events/scheduler-events.js';
export type { AttemptFacts, BackfillFacts, PageFacts, EventOf, HoldFacts, SchedulerEvent, SchedulerFact } from './events/scheduler-event.js';

export type { BackfillOptions, CancelOptions } from './options/backfill-options.js';
export type { BulkOptions, DeadLetterFilter, WaitingStatus } from './options/dead-letter-filter.js';
export type { FoundRuns } from './store/dead-letter-bulk.store.js';
export type { BackoffOptions, DistributedCronOptions } from './options/job-options.js';
export type { RunTimeJob } from './options/run-time-job.js';
export type {
  DistributedSchedulerAsyncOptions,
  DistributedSchedulerOptions,
  DistributedSchedulerOptionsFactory,
  JobDefaults,
  PostgresConnection,
} from './options/scheduler-options.js';
export type { Duration } from './domain/duration.js';
export type { Explanation, ExplainedStart, ExplanationKind } from './domain/explanation-facts.js';
export type { FeatureFlags } from './options/feature-flags.js';
export type { Operator } from './options/operator.js';
export type { Cancelled } from './store/cancel.store.js';
export type { FlagState } from './store/flag.store.js';
export type { KeptAction, LastRun } from './store/inventory.store.js';
export type { ManualOverlap } from './store/manual-run.store.js';
export type { Pause } from './store/pause.store.js';
export type { Backoff, BackoffFunction, ConcurrencyGroup, FlagOffPolicy, ImplicitOption, JobDefinition, JobPolicies, MissedPolicy, OverlapPolicy, RetryableFunction } from './domain/job-definition.js';
export type { OwnedRun, RunKey, RunStatus, RunTrigger } from './domain/run.js';
export type { StoredError } from './domain/stored-error.js';
export type { ClockChange } from './domain/clock-change-preview.js';
export { fireTimesBetween, nextFireTimes, previousFireTime, type Schedule, type ZoneOptions } from './domain/schedule.js';

export { JobAction } from './store/job-action.entity.js';
export { JobBackfill } from './store/job-backfill.entity.js';
export { JobFlag } from './store/job-flag.entity.js';
export { JobInstance } from './store/job-instance.entity.js';
export { JobPage } from './store/job-page.entity.js';
export { JobRun, type EarlierAttempt } from './store/job-run.entity.js';
export { JobSchedule, type EarlierHold } from './store/job-schedule.entity.js';
export { Receipt } from './store/receipt.entity.js';
export { JOB_RUN_REPOSITORY, RECEIPT_REPOSITORY } from './store/store.tokens.js';
export type { ClaimVerdict, WaitingRun } from './store/claim.store.js';

export { SchedulerError } from './errors/scheduler.error.js';
export { AfterRunError } from './errors/after-run.error.js';
export { CancelledError } from './errors/cancelled.error.js';
export { DatabaseConnectionError } from './errors/database-connection.error.js';
export { EmbeddedServerError } from './errors/embedded-server.error.js';
export { GiveUp } from './errors/give-up.error.js';
export { InvalidBackfillError } from './errors/invalid-backfill.error.js';
export { InvalidCalendarError } from './errors/invalid-calendar.error.js';
export { InvalidCronExpressionError } from './errors/invalid-cron-expression.error.js';
export { InvalidDecorationError } from './errors/invalid-decoration.error.js';
export { InvalidEntityError } from './errors/invalid-entity.error.js';
export { InvalidJobsError } from './errors/invalid-jobs.error.js';
export { InvalidOptionsError } from './errors/invalid-options.error.js';
export { InvalidPagesError } from './errors/invalid-pages.error.js';
export { InvalidTimeZoneError } from './errors/invalid-time-zone.error.js';
export { JobExistsError } from './errors/job-exists.error.js';
export { LeaseLostError, type LeaseLoss } from './errors/lease-lost.error.js';
export { MissingForRootError } from './errors/missing-for-root.error.js';
export { MissingTablesError } from './errors/missing-tables.error.js';
export { NestedReceiptError } from './errors/nested-receipt.error.js';
export { OutsideRunError } from './errors/outside-run.error.js';
export { RenamedJobError } from './errors/renamed-job.error.js';
export { RepeatedModuleError } from './errors/repeated-module.error.js';
export { RetryLater } from './errors/retry-later.error.js';
export { RunStateError } from './errors/run-state.error.js';
export { RunRefusedError } from './errors/run-refused.error.js';
export { ShutdownError } from './errors/shutdown.error.js';
export { TimeoutError } from './errors/timeout.error.js';
export { UnknownBackfillError } from './errors/unknown-backfill.error.js';
export { UnknownJobError } from './errors/unknown-job.error.js';
export { UnknownRunError } from './errors/unknown-run.error.js';
export { UnreadableDatesError } from './errors/unreadable-dates.error.js';
export { UnusableDatabaseError } from './errors/unusable-database.error.js';
