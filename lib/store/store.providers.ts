import type { Provider } from '@nestjs/common';
import { CatchUpStore } from './catch-up.store.js';
import { ClaimStore } from './claim.store.js';
import { JobRun } from './job-run.entity.js';
import { JobRunStore } from './job-run.store.js';
import { JobScheduleStore } from './job-schedule.store.js';
import { PartitionStore } from './partition.store.js';
import { ReaperStore } from './reaper.store.js';
import { Receipt } from './receipt.entity.js';
import { ReceiptStore } from './receipt.store.js';
import { SchedulerDatabase } from './scheduler-database.js';
import { SchemaStore } from './schema.store.js';
import { JOB_RUN_REPOSITORY, RECEIPT_REPOSITORY } from './store.tokens.js';

/** The stores and repositories, on the module's own connections. */
export const STORE_PROVIDERS: Provider[] = [
  ...[SchemaStore, PartitionStore, JobScheduleStore, JobRunStore, ReaperStore, ReceiptStore].map((store) => ({
    provide: store,
    inject: [SchedulerDatabase],
    useFactory: (database: SchedulerDatabase) => new store(database),
  })),
  {
    provide: ClaimStore,
    inject: [SchedulerDatabase, PartitionStore],
    useFactory: (database: SchedulerDatabase, partitions: PartitionStore) => new ClaimStore(database, partitions),
  },
  {
    provide: CatchUpStore,
    inject: [SchedulerDatabase, PartitionStore],
    useFactory: (database: SchedulerDatabase, partitions: PartitionStore) => new CatchUpStore(database, partitions),
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
