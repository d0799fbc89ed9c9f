import { carryOut } from '../operations/carry-out.js';
import type { ReadOperator } from '../operations/operated-job.js';
import { queryOn } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

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
    await carryOut(this.database, 'flag_set_1', [name, on, by, reason], { verb: 'set', jobName: null, what: `flag "${name}"` });
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
