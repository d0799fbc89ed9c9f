import { monthOf, nextMonth } from '../../domain/schedule/months.js';
import { queryOn, type Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { isMissingPartition } from '../connection/sql-state.js';
import { inTransaction, lockName } from '../connection/transaction.js';

const PARTITIONED = ['job_runs', 'receipts', 'job_pages'] as const;

/**
 * How full pages are made, in per cent. Room for renewals of leases keeps those in place. In that of receipts nothing comes but
 * their own closing, and a page that is never full is never tidied up before the next vacuum: it would hold half as many.
 */
const FILL_FACTOR = { job_runs: 80, receipts: 100, job_pages: 80 } as const;

/** The monthly partitions of `job_runs`, `receipts` and `job_pages`. */
export class PartitionStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Makes the partitions that hold the given instants, where they are missing. Safe on every replica at once.
   * @returns the names of those made
   */
  async ensure(instants: readonly Date[]): Promise<string[]> {
    const months = [...new Set(instants.map((instant) => monthOf(instant).getTime()))].sort((a, b) => a - b);
    const wanted = months.flatMap((month) => PARTITIONED.map((table) => new Partition(table, new Date(month))));
    if ((await this.missing(wanted, queryOn(this.database.coordination))).length === 0) return [];
    return inTransaction(this.database.coordination, async (query) => {
      await lockName(query, `nestjs-distributed-cron:partitions:${this.database.tables.schema}`);
      const missing = await this.missing(wanted, query);
      for (const partition of missing) await this.create(partition, query);
      return missing.map((partition) => partition.name);
    });
  }

  /** True when all partitions that hold the instant exist. */
  async areThere(instant: Date): Promise<boolean> {
    const wanted = PARTITIONED.map((table) => new Partition(table, monthOf(instant)));
    return (await this.missing(wanted, queryOn(this.database.coordination))).length === 0;
  }

  /** Where the partitions end that follow each other from the instant's month on; its beginning when that one is missing. */
  async end(instant: Date): Promise<Date> {
    let month = monthOf(instant);
    while (await this.areThere(month)) month = nextMonth(month);
    return month;
  }

  /** Does the work; when it fails because a partition is missing, makes those for the instants it names and does it again. */
  async makingSure<Result>(instants: () => readonly Date[], work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (!isMissingPartition(error)) throw error;
      await this.ensure(instants());
      return work();
    }
  }

  /** Asks the catalog's tables: `to_regclass` answers from a cache that does not see what another replica just made. */
  private async missing(wanted: readonly Partition[], query: Query): Promise<Partition[]> {
    const there = await query<{ name: string }>(
      `select relname as name
       from   pg_class
       join   pg_namespace on pg_namespace.oid = relnamespace
       where  nspname = $1
       and    relname = any ($2::text[])`,
      [this.database.tables.schema, wanted.map(({ name }) => name)],
    );
    const names = new Set(there.map(({ name }) => name));
    return wanted.filter(({ name }) => !names.has(name));
  }

  /**
   * Attached instead of created in place: `create table … partition of` would lock the whole table against every claim,
   * attaching an empty one does not.
   */
  private async create(partition: Partition, query: Query): Promise<void> {
    const { tables } = this.database;
    const parent = tables.qualify(partition.table);
    const name = tables.qualify(partition.name);
    await query(`create table ${name} (like ${parent} including defaults including constraints) with (fillfactor = ${FILL_FACTOR[partition.table]})`);
    await query(
      `alter table ${parent} attach partition ${name}
       for values from ('${partition.month.toISOString()}') to ('${nextMonth(partition.month).toISOString()}')`,
    );
  }
}

class Partition {
  readonly name: string;

  constructor(
    readonly table: (typeof PARTITIONED)[number],
    readonly month: Date,
  ) {
    this.name = `${table}_${month.toISOString().slice(0, 7).replace('-', '_')}`;
  }
}
