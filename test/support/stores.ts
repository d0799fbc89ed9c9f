import { resolveSchedulerOptions } from '../../lib/options/resolve-options.js';
import { DONE } from '../../lib/runs/outcome.js';
import { monthsAround } from '../../lib/options/retention.js';
import { BackfillCancelStore, BackfillStore } from '../../lib/catch-up/backfill.repository.js';
import { BackfillFeedStore } from '../../lib/catch-up/backfill-feed.service.js';
import { CatchUpStore } from '../../lib/catch-up/catch-up.service.js';
import { type ClaimAnswers } from '../../lib/runs/claim.js';
import type { EntityManager } from 'typeorm';
import type { OwnedRun, ReceiptKey } from '../../lib/options/run.js';
import type { DueOccurrence } from '../../lib/runs/claim.js';
import { DeadLetterStore } from '../../lib/operations/dead-letters.service.js';
import { JobInstanceStore } from '../../lib/jobs/job-instance.store.js';
import { JobScheduleStore } from '../../lib/jobs/job-schedule.store.js';
import { PartitionStore } from '../../lib/database/partition.store.js';
import { ReapingRepository } from '../../lib/runs/reaping.repository.js';
import { callAlone } from '../../lib/database/transactions.js';
import { isRefusedClose } from '../../lib/database/sql-state.js';
import {
  type ReceiptAnswer,
  receiptAnswer,
  ReceiptRepository,
  type ReceiptRow,
} from '../../lib/receipts/receipt.repository.js';
import { RunTimeJobStore, TakeOverStore } from '../../lib/jobs/schedule-changes.store.js';
import { SchedulerDatabase } from '../../lib/database/scheduler-database.js';
import { JobRunRepository, type WrittenEnd } from '../../lib/runs/job-run.repository.js';
import { SchemaStore } from '../../lib/database/schema.store.js';
import { ENTITIES } from '../../lib/lifecycle/providers.js';
import { schedulerMigrationsIn } from '../../migrations/index.js';
import { createTestDatabase, type TestDatabase } from './database.js';

/** Every store on a database of its own, migrated, with the partitions of this month and of the two beside it. */
export interface Stores {
  readonly test: TestDatabase;
  readonly database: SchedulerDatabase;
  readonly schema: SchemaStore;
  readonly partitions: PartitionStore;
  readonly instances: JobInstanceStore;
  readonly schedules: JobScheduleStore;
  readonly takeOvers: TakeOverStore;
  readonly runTimeJobs: RunTimeJobStore;
  /** The same repository, under the two names that tests have for it. */
  readonly claims: JobRunRepositoryForTests;
  readonly runs: JobRunRepositoryForTests;
  readonly reaper: ReapingRepository;
  readonly receipts: ReceiptRepositoryForTests;
  readonly steps: JobRunRepository;
  readonly catchUps: CatchUpStore;
  readonly backfills: BackfillStore;
  readonly feeds: BackfillFeedStore;
  readonly cancels: BackfillCancelStore;
  readonly deadLetters: DeadLetterStore;
  readonly deadLettersInBulk: DeadLetterStore;
  close(): Promise<void>;
}

/** @param server default: the one of all tests */
export async function openStores(server?: string): Promise<Stores> {
  const test = await createTestDatabase(server);
  const options = resolveSchedulerOptions(
    { connection: test.url, poolSize: 10 },
    { env: {}, embeddedInstalled: false },
  );
  const database = await SchedulerDatabase.open(options, {
    entities: ENTITIES,
    migrations: schedulerMigrationsIn(options.schema),
  });
  const schema = new SchemaStore(database);
  await schema.migrate();
  const partitions = new PartitionStore(database);
  // What a test writes may lie in another month, some hours from now, and a month may end while the file runs.
  await partitions.ensure(monthsAround(secondsAgo(0), 1, 1));
  const claims = new JobRunRepositoryForTests(database, partitions);
  const instances = new JobInstanceStore(database);
  return {
    test,
    database,
    schema,
    partitions,
    claims,
    instances,
    schedules: new JobScheduleStore(database),
    takeOvers: new TakeOverStore(database, partitions),
    runTimeJobs: new RunTimeJobStore(database, partitions),
    runs: claims,
    reaper: new ReapingRepository(database),
    receipts: new ReceiptRepositoryForTests(database),
    steps: claims,
    catchUps: new CatchUpStore(database, partitions),
    backfills: new BackfillStore(database),
    feeds: new BackfillFeedStore(database, partitions),
    cancels: new BackfillCancelStore(database),
    deadLetters: new DeadLetterStore(database),
    deadLettersInBulk: new DeadLetterStore(database),
    close: async () => {
      await database.close();
      await test.drop();
    },
  };
}

const LOADED_AT = Math.floor(Date.now() / 1000);

/** This many whole seconds before the test file was loaded: the same instant however long the file runs. */
export function secondsAgo(seconds: number): Date {
  return new Date((LOADED_AT - seconds) * 1000);
}

/**
 * Claims of jobs that no test has declared: they are in the database, with the schedule that was asked for, and no
 * past.
 */
class JobRunRepositoryForTests extends JobRunRepository {
  constructor(
    private readonly own: SchedulerDatabase,
    partitions: PartitionStore,
  ) {
    super(own, partitions);
  }

  override async claimDue(due: readonly DueOccurrence[], instanceId: string, claim?: number): Promise<ClaimAnswers> {
    for (const { jobName, cron, timeZone } of due) {
      await this.own.coordination.query(
        `insert into job_schedule (name, cron, time_zone, policies, decided_until) values ($1, $2, $3, '{}', '2000-01-01') on conflict do nothing`,
        [jobName, cron, timeZone],
      );
    }
    return super.claimDue(due, instanceId, claim);
  }

  complete(run: OwnedRun): Promise<WrittenEnd | null> {
    return this.end(run, DONE);
  }
}

/** A receipt's statements, each by itself. */
class ReceiptRepositoryForTests extends ReceiptRepository {
  async open(manager: EntityManager, run: OwnedRun, key: ReceiptKey, idempotencyKey: string): Promise<ReceiptAnswer> {
    const [row] = await callAlone<ReceiptRow>(manager, this.begin(run, key, idempotencyKey, false));
    return receiptAnswer(row!);
  }

  /** @returns false when the run is no longer ours: the transaction must be rolled back */
  async close(manager: EntityManager, run: OwnedRun, key: ReceiptKey, result: string | null): Promise<boolean> {
    try {
      await callAlone(manager, this.end(run, key, result));
      return true;
    } catch (error) {
      if (isRefusedClose(error)) return false;
      throw error;
    }
  }
}
