import type { Provider } from '@nestjs/common';
import { BackfillCancelStore } from './backfill-cancel.store.js';
import { BackfillFeedStore } from './backfill-feed.store.js';
import { BackfillStore } from './backfill.store.js';
import { CancelStore } from './cancel.store.js';
import { CatchUpStore } from './catch-up.store.js';
import { ClaimStore } from './claim.store.js';
import { DeadLetterBulkStore } from './dead-letter-bulk.store.js';
import { DeadLetterStore } from './dead-letter.store.js';
import { DeliveryStore } from './delivery.store.js';
import { ExplainStore } from './explain.store.js';
import { ExternalReceiptStore } from './external-receipt.store.js';
import { FanOutStore } from './fan-out.store.js';
import { FlagStore } from './flag.store.js';
import { InDoubtStore } from './in-doubt.store.js';
import { InventoryStore } from './inventory.store.js';
import { JobInstanceStore } from './job-instance.store.js';
import { JobRun } from './job-run.entity.js';
import { JobRunStore } from './job-run.store.js';
import { JobScheduleStore } from './job-schedule.store.js';
import { ManualRunStore } from './manual-run.store.js';
import { OccurrenceReceiptStore } from './occurrence-receipt.store.js';
import { OverdueStore } from './overdue.store.js';
import { OverrideStore } from './override.store.js';
import { PageAttemptStore } from './page-attempt.store.js';
import { PageKeepingStore } from './page-keeping.store.js';
import { PageLettersStore } from './page-letters.store.js';
import { PageStore } from './page.store.js';
import { PartitionStore } from './partition.store.js';
import { PauseStore } from './pause.store.js';
import { ReaperStore } from './reaper.store.js';
import { PruneStore } from './prune.store.js';
import { Receipt } from './receipt.entity.js';
import { ReceiptBatchStore } from './receipt-batch.store.js';
import { ReceiptSecretStore } from './receipt-secret.store.js';
import { ReceiptStore } from './receipt.store.js';
import { RunEndsStore } from './run-ends.store.js';
import { RunTimeJobStore } from './run-time-job.store.js';
import { SchedulerDatabase } from './scheduler-database.js';
import { SchemaStore } from './schema.store.js';
import { SkipStore } from './skip.store.js';
import { StepStore } from './step.store.js';
import { JOB_RUN_REPOSITORY, RECEIPT_REPOSITORY } from './store.tokens.js';
import { StrictReceiptStore } from './strict-receipt.store.js';
import { TakeOverStore } from './take-over.store.js';
import { ToldStore } from './told.store.js';

/** The stores and repositories, on the module's own connections. */
export const STORE_PROVIDERS: Provider[] = [
  ...[
    SchemaStore,
    PartitionStore,
    JobInstanceStore,
    JobRunStore,
    RunEndsStore,
    ReaperStore,
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
    provide: JobScheduleStore,
    inject: [SchedulerDatabase, JobInstanceStore],
    useFactory: (database: SchedulerDatabase, instances: JobInstanceStore) => new JobScheduleStore(database, instances),
  },
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
