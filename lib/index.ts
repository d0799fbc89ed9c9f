// What an application writes or catches. A type that only appears inside another one is reached through that one:
// `DistributedCronOptions['backoff']`, `Parameters<SchedulerService['pause']>`.

export { DistributedSchedulerModule } from './distributed-scheduler.module.js';
export type {
  DistributedSchedulerAsyncOptions,
  DistributedSchedulerOptions,
  DistributedSchedulerOptionsFactory,
  JobDefaults,
  PostgresConnection,
} from './options/scheduler-options.js';
export type { Duration } from './options/duration.js';
export type { FeatureFlags } from './options/scheduler-options.js';

// Jobs
export { DistributedCron, DistributedCronHandler } from './jobs/distributed-cron.decorator.js';
export type { DistributedCronOptions } from './options/job-definition.js';
export type { JobDefinition, MissedPolicy, OverlapPolicy } from './options/job-definition.js';
export { JobRegistry } from './jobs/job.registry.js';
export type { RegisteredJob } from './jobs/known-jobs.js';
export type { RunTimeJob } from './options/run-time-job.js';
export type { CronContextType } from './jobs/handler.factory.js';
export { fireTimesBetween, nextFireTimes, previousFireTime, type Schedule } from './cron/schedule.js';

// Runs
export { CronRun, type RunCheckpoint } from './runs/cron-run.js';
export { SchedulerContext } from './runs/run-context.js';
export type { RunKey, RunStatus, RunTrigger } from './options/run.js';
export { ClaimService } from './runs/claim.service.js';
export { HeartbeatService } from './runs/heartbeat/heartbeat.service.js';
export { ReaperService } from './runs/reaper.service.js';
export { JobRun, type EarlierAttempt } from './runs/job-run.entity.js';
export { JobRunRepository } from './runs/job-run.repository.js';

// Effects
export { ReceiptService } from './receipts/receipt.service.js';
export { neverConnected } from './receipts/receipt-options.js';
export type { EachOutcome, OnceExternalOptions } from './receipts/receipt-options.js';
export { Receipt } from './receipts/receipt.entity.js';
export { ReceiptRepository } from './receipts/receipt.repository.js';

// Pages
export { DistributedCronPage } from './jobs/page.explorer.js';
export { FanOutService, type Published } from './fan-out/fan-out.service.js';
export { PAGE_QUEUE } from './options/tokens.js';
export type { Page } from './jobs/handler.factory.js';
export type {
  PageProgress,
  PageQueue,
  PageQueueContext,
  PageTicket,
  PageWork,
  PageWorker,
} from './fan-out/page.js';

// What an operator does
export { SchedulerService } from './operations/scheduler.service.js';
export type { Operator } from './options/operator-options.js';
export type { BackfillOptions } from './catch-up/backfill-verbs.service.js';
export type { BackfillPlan, BackfillProgress } from './catch-up/backfill-verbs.service.js';
export type { ChangedPages, DeadPage, FoundPages } from './operations/dead-pages.service.js';
export type { DeadLetterFilter } from './operations/dead-letters.service.js';
export type { FoundRuns } from './operations/dead-letters.service.js';
export type { Delivered } from './operations/delivery-rules.js';
export type { CallInDoubt, ExplainedStart, Explanation } from './operations/explanation-facts.js';
export type { FlagAnswer } from './runs/flag-answers.js';
export type { FlagState } from './operations/holds.service.js';
export type { EffectInDoubt, ResolvedEffects } from './operations/in-doubt.service.js';
export type { InventoryEntry, LastRun } from './operations/inventory.service.js';
export type { KeptAction, ListedRun, Replica } from './operations/history.service.js';
export type { ClockChange } from './cron/clock-changes.js';
export type { Pause } from './operations/holds.service.js';

// What is told
export { SchedulerEvents } from './observe/scheduler-events.js';
export type { EventOf, SchedulerEvent } from './observe/scheduler-event.js';
export { ALERT_SINK } from './options/tokens.js';
export type { Alert, AlertSink } from './options/alert-options.js';
export type { DatabaseTrouble } from './errors/database-trouble.js';
export type { StoredError } from './errors/stored-error.js';

// What is thrown; docs/errors.md lists the codes
export {
  DeliveryRefusedError,
  InvalidOptionsError,
  InvalidScheduleError,
  NotFoundError,
  OperationRefusedError,
  SchedulerError,
  SetupError,
  UsageError,
} from './errors/errors.js';
export {
  CancelledError,
  EffectNotDone,
  EffectsFailedError,
  type FailedEffect,
  GiveUp,
  LeaseLostError,
  ShutdownError,
} from './errors/run.errors.js';
export { RetryLater, TimeoutError } from './runs/outcome.js';
