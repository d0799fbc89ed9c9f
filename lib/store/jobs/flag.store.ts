import type { ReadOperator } from '../operations/operated-job.js';
import { queryOn } from '../connection/query.js';
import { recordAction } from '../operations/record-action.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { inTransaction } from '../connection/transaction.js';
import { wakeUp } from '../wake-up.js';

/** A feature flag: what the table says about it, and who asks for it. */
export interface StoredFlag {
  readonly name: string;
  readonly onInTable: boolean;
  /** Null for one that nobody has set, which is on. */
  readonly changedBy: string | null;
  readonly reason: string | null;
  readonly changedAt: Date | null;
  /** The jobs that name it, as they were declared last. */
  readonly jobs: readonly string[];
}

/** The table of feature flags, which claims read. */
export class FlagStore {
  constructor(private readonly database: SchedulerDatabase) {}

  async set(name: string, on: boolean, { by, reason }: ReadOperator): Promise<void> {
    const { coordination, tables } = this.database;
    await inTransaction(coordination, async (query) => {
      await query(
        `insert into ${tables.jobFlags} (name, is_on, changed_by, reason)
         values ($1, $2, $3, $4)
         on     conflict (name) do update
         set    is_on = excluded.is_on,
                changed_by = excluded.changed_by,
                reason = excluded.reason,
                changed_at = clock_timestamp()`,
        [name, on, by, reason],
      );
      await recordAction(query, tables, { action: 'set-flag', by, reason, details: { flag: name, on } });
      await wakeUp(query, tables, on ? 'runs' : 'jobs');
    });
  }

  /** Those that are set and those that jobs name, by name. */
  async list(): Promise<StoredFlag[]> {
    const { coordination, tables } = this.database;
    return queryOn(coordination)<StoredFlag>(
      `select coalesce(flag.name, named.name) as name, coalesce(flag.is_on, true) as "onInTable",
              flag.changed_by as "changedBy", flag.reason, flag.changed_at as "changedAt", coalesce(named.jobs, '{}') as jobs
       from   ${tables.jobFlags} flag
       full   join (select policies ->> 'flag' as name, array_agg(job.name order by job.name) as jobs
                    from   ${tables.jobSchedule} job
                    where  policies ->> 'flag' is not null
                    and    removed_at is null
                    group  by 1) named on named.name = flag.name
       order  by 1`,
    );
  }
}
