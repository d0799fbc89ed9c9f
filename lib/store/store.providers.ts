import type { Provider } from '@nestjs/common';
import { BackfillCancelStore } from './backfills/backfill-cancel.store.js';
import { BackfillFeedStore } from './backfills/backfill-feed.store.js';
import { BackfillStore } from './backfills/backfill.store.js';
import { CancelStore } from './operations/cancel.store.js';
import { CatchUpStore } from './runs/catch-up.store.js';
import { ClaimStore } from './runs/claim.store.js';
import { DeadLetterBulkStore } from './operations/dead-letter-bulk.store.js';
import { DeadLetterStore } from './operations/dead-letter.store.js';
import { DeliveryStore } from './operations/delivery.store.js';
import { ExplainStore } from './operations/explain.store.js';
import { ExternalReceiptStore } from './receipts/external-receipt.store.js';
import { FanOutStore } from './pages/fan-out.store.js';
import { GoneOwnersStore } from './runs/gone-owners.store.js';
import { FlagStore } from './jobs/flag.store.js';
import { InDoubtStore } from './receipts/in-doubt.store.js';
import { InstanceFactsStore } from './jobs/instance-facts.store.js';
import { InventoryStore } from './operations/inventory.store.js';
import { JobInstanceStore } from './jobs/job-instance.store.js';
import { JobRun } from './entities/job-run.entity.js';
import { JobRunStore } from './runs/job-run.store.js';
import { JobScheduleStore } from './jobs/job-schedule.store.js';
import { ManualRunStore } from './operations/manual-run.store.js';
import { OccurrenceReceiptStore } from './receipts/occurrence-receipt.store.js';
import { OverdueStore } from './upkeep/overdue.store.js';
import { OverrideStore } from './operations/override.store.js';
import { PageAttemptStore } from './pages/page-attempt.store.js';
import { PageKeepingStore } from './pages/page-keeping.store.js';
import { PageLettersStore } from './pages/page-letters.store.js';
import { PageStore } from './pages/page.store.js';
import { PartitionStore } from './upkeep/partition.store.js';
import { PauseStore } from './operations/pause.store.js';
import { ReaperStore } from './runs/reaper.store.js';
import { PruneStore } from './upkeep/prune.store.js';
import { Receipt } from './entities/receipt.entity.js';
import { ReceiptBatchStore } from './receipts/receipt-batch.store.js';
import { ReceiptSecretStore } from './receipts/receipt-secret.store.js';
import { ReceiptStore } from './receipts/receipt.store.js';
import { RetentionStore } from './upkeep/retention.store.js';
import { RunEndsStore } from './runs/run-ends.store.js';
import { RunTimeJobStore } from './jobs/run-time-job.store.js';
import { SchedulerDatabase } from './scheduler-database.js';
import { SchemaStore } from './upkeep/schema.store.js';
import { SkipStore } from './operations/skip.store.js';
import { StepStore } from './runs/step.store.js';
import { JOB_RUN_REPOSITORY, RECEIPT_REPOSITORY } from './store.tokens.js';
import { StrictReceiptStore } from './receipts/strict-receipt.store.js';
import { TakeOverStore } from './jobs/take-over.store.js';
import { ToldStore } from './jobs/told.store.js';

/** The stores and repositories, on the module's own connections. */
export const STORE_PROVIDERS: Provider[] = [
  ...[
    SchemaStore,
    PartitionStore,
    JobInstanceStore,
    JobScheduleStore,
    InstanceFactsStore,
    JobRunStore,
    RunEndsStore,
    ReaperStore,
    GoneOwnersStore,
    ReceiptStore,
    ReceiptSecretStore,
    ExternalReceiptStore,
    InDoubtStore,
    StepStore,
    ReceiptBatchStore,
    StrictReceiptStore,
    OccurrenceReceiptStore,
    BackfillStore,
    BackfillCancelStore,
    DeadLetterStore,
    DeadLetterBulkStore,
    PauseStore,
    FlagStore,
    CancelStore,
    ExplainStore,
    FanOutStore,
    PageAttemptStore,
    PageKeepingStore,
    PageLettersStore,
    InventoryStore,
    OverdueStore,
    ToldStore,
    PruneStore,
    RetentionStore,
  ].map((store) => ({
    provide: store,
    inject: [SchedulerDatabase],
    useFactory: (database: SchedulerDatabase) => new store(database),
  })),
  ...[ClaimStore, CatchUpStore, TakeOverStore, RunTimeJobStore, BackfillFeedStore, OverrideStore, SkipStore, ManualRunStore, PageStore].map((store) => ({
    provide: store,
    inject: [SchedulerDatabase, PartitionStore],
    useFactory: (database: SchedulerDatabase, partitions: PartitionStore) => new store(database, partitions),
  })),
  {
    provide: DeliveryStore,
    inject: [SchedulerDatabase, ClaimStore],
    useFactory: (database: SchedulerDatabase, claims: ClaimStore) => new DeliveryStore(database, claims),
  },
  {
    provide: JOB_RUN_REPOSITORY,
    inject: [SchedulerDatabase],
    useFactory: ({ coordination }: SchedulerDatabase) => coordination.getRepository(JobRun),
  },
  {
    provide: RECEIPT_REPOSITORY,
    inject: [SchedulerDatabase],
    useFactory: ({ coordination }: SchedulerDatabase) => coordination.getRepository(Receipt),
  },
];
