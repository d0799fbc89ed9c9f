import type { Provider } from '@nestjs/common';
import { BackfillCancelStore, BackfillStore, JobBackfill } from '../catch-up/backfill.repository.js';
import { BackfillFeedStore } from '../catch-up/backfill-feed.service.js';
import { CancelStore, ManualRunStore } from '../operations/run-requests.service.js';
import { CatchUpStore } from '../catch-up/catch-up.service.js';
import { IdempotencyKeys } from '../runs/idempotency-key.js';
import { JobFlag, JobSchedule, JobInstance } from '../jobs/job.entities.js';
import { JobPage } from '../fan-out/page.js';
import { JobRun } from '../runs/job-run.entity.js';
import { Receipt } from '../receipts/receipt.entity.js';
import { JobRunRepository } from '../runs/job-run.repository.js';
import { ReapingRepository } from '../runs/reaping.repository.js';
import { DeadLetterStore } from '../operations/dead-letters.service.js';
import { DeliveryStore } from '../operations/delivery.store.js';
import { ExplainStore } from '../operations/explain.store.js';
import { FanOutStore, PageStore, PageAttemptStore } from '../fan-out/page.repository.js';
import { FlagStore, PauseStore } from '../operations/holds.service.js';
import { InDoubtStore } from '../operations/in-doubt.service.js';
import { InstanceFactsStore, JobInstanceStore } from '../jobs/job-instance.store.js';
import { InventoryStore } from '../operations/inventory.service.js';
import { JobScheduleStore } from '../jobs/job-schedule.store.js';
import { OverdueStore } from '../maintenance/watches.service.js';
import { OverrideStore, SkipStore } from '../operations/schedule-edits.service.js';
import { PageKeepingStore } from '../fan-out/page-keeper.service.js';
import { PageLettersStore } from '../operations/dead-pages.service.js';
import { PartitionStore } from '../database/partition.store.js';
import { PruneStore } from '../maintenance/pruning.service.js';
import { ReceiptRepository } from '../receipts/receipt.repository.js';
import { RetentionStore } from '../maintenance/retention.store.js';
import { RunTimeJobStore, TakeOverStore } from '../jobs/schedule-changes.store.js';
import { SchedulerDatabase } from '../database/scheduler-database.js';
import { SchemaStore } from '../database/schema.store.js';
import { ToldStore } from '../observe/alerts.service.js';

/** The library's tables, as TypeORM is told of them. */
export const ENTITIES = [JobSchedule, JobRun, JobPage, Receipt, JobBackfill, JobInstance, JobFlag];

/** The stores and repositories, on the module's own connections. */
export const STORE_PROVIDERS: Provider[] = [
  ...[
    SchemaStore,
    PartitionStore,
    JobInstanceStore,
    JobScheduleStore,
    InstanceFactsStore,
    ReapingRepository,
    ReceiptRepository,
    IdempotencyKeys,
    InDoubtStore,
    BackfillStore,
    BackfillCancelStore,
    DeadLetterStore,
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
  ...[
    JobRunRepository,
    CatchUpStore,
    TakeOverStore,
    RunTimeJobStore,
    BackfillFeedStore,
    OverrideStore,
    SkipStore,
    ManualRunStore,
    PageStore,
  ].map((store) => ({
    provide: store,
    inject: [SchedulerDatabase, PartitionStore],
    useFactory: (database: SchedulerDatabase, partitions: PartitionStore) => new store(database, partitions),
  })),
  {
    provide: DeliveryStore,
    inject: [SchedulerDatabase, JobRunRepository],
    useFactory: (database: SchedulerDatabase, claims: JobRunRepository) => new DeliveryStore(database, claims),
  },
];
