import type { Provider } from '@nestjs/common';
import { CatchUpStore } from './catch-up.store.js';
import { ClaimStore } from './claim.store.js';
import { JobInstanceStore } from './job-instance.store.js';
import { JobRun } from './job-run.entity.js';
import { JobRunStore } from './job-run.store.js';
import { JobScheduleStore } from './job-schedule.store.js';
import { OverdueStore } from './overdue.store.js';
import { PartitionStore } from './partition.store.js';
import { ReaperStore } from './reaper.store.js';
import { Receipt } from './receipt.entity.js';
import { ReceiptStore } from './receipt.store.js';
import { RunTimeJobStore } from './run-time-job.store.js';
import { SchedulerDatabase } from './scheduler-database.js';
import { SchemaStore } from './schema.store.js';
import { JOB_RUN_REPOSITORY, RECEIPT_REPOSITORY } from './store.tokens.js';
import { TakeOverStore } from './take-over.store.js';
import { ToldStore } from './told.store.js';

/** The stores and repositories, on the module's own connections. */
export const STORE_PROVIDERS: Provider[] = [
  ...[SchemaStore, PartitionStore, JobInstanceStore, JobRunStore, OverdueStore, ReaperStore, ReceiptStore, ToldStore].map((store) => ({
    provide: store,
    inject: [SchedulerDatabase],
    useFactory: (database: SchedulerDatabase) => new store(database),
  })),
  ...[ClaimStore, CatchUpStore, TakeOverStore, RunTimeJobStore].map((store) => ({
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
