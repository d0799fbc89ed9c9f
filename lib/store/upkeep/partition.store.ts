import { monthOf, nextMonth } from '../../domain/schedule/months.js';
import { DetachedPartitionError } from '../../errors/detached-partition.error.js';
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
   * @param over those of months that are over: whoever detaches one is not told before something is due in it
   * @returns the names of those made
   * @throws DetachedPartitionError when somebody has detached one and left it there
   */
  async ensure(instants: readonly Date[], over: readonly Date[] = []): Promise<string[]> {
    const wanted = partitionsOf([...over, ...instants]);
    const seen = await this.look(wanted, queryOn(this.database.coordination));
    if (seen.isComplete) return [];
    const { missing, detached } = await inTransaction(this.database.coordination, async (query) => {
      await lockName(query, `nestjs-distributed-cron:partitions:${this.database.tables.schema}`);
      const now = await this.look(wanted, query);
      for (const partition of now.missing) await this.create(partition, query);
      return now;
    });
    // The others are made all the same.
    const inTheWay = detached.find(({ month }) => !over.some((past) => monthOf(past).getTime() === month.getTime()));
    if (inTheWay) throw this.detachedError(inTheWay);
    return missing.map((partition) => partition.name);
  }

  /** True when all partitions that hold the instant exist. */
  async areThere(instant: Date): Promise<boolean> {
    const wanted = PARTITIONED.map((table) => new Partition(table, monthOf(instant)));
    return (await this.look(wanted, queryOn(this.database.coordination))).isComplete;
  }

  /** Where the partitions end that follow each other from the instant's month on; its beginning when that one is missing. */
  async end(instant: Date): Promise<Date> {
    let month = monthOf(instant);
    while (await this.areThere(month)) month = nextMonth(month);
    return month;
  }

  /** Does the work; when it fails because a partition is missing, makes those for the instants it names and does it again. */
  async makingSure<Result>(instants: () => readonly Date[] | Promise<readonly Date[]>, work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (!isMissingPartition(error)) throw error;
      await this.ensure(await instants());
      return work();
    }
  }

  /** Asks the catalog's tables: `to_regclass` answers from a cache that does not see what another replica just made. */
  private async look(wanted: readonly Partition[], query: Query): Promise<Seen> {
    const there = await query<{ name: string; parent: string | null }>(
      `select child.relname as name, parent.relname as parent
       from   pg_class child
       join   pg_namespace on pg_namespace.oid = child.relnamespace
       left   join pg_inherits on inhrelid = child.oid and not inhdetachpending
       left   join pg_class parent on parent.oid = inhparent and parent.relnamespace = child.relnamespace
       where  nspname = $1
       and    child.relname = any ($2::text[])`,
      [this.database.tables.schema, wanted.map(({ name }) => name)],
    );
    const parents = new Map(there.map(({ name, parent }) => [name, parent]));
    const missing = wanted.filter(({ name }) => !parents.has(name));
    const detached = wanted.filter(({ name, table }) => parents.has(name) && parents.get(name) !== table);
    return { missing, detached, isComplete: missing.length + detached.length === 0 };
  }

  private detachedError({ name, table, month }: Partition): DetachedPartitionError {
    const { tables } = this.database;
    return new DetachedPartitionError(tables.qualify(name), tables.qualify(table), { from: month.toISOString(), until: nextMonth(month).toISOString() });
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

/** What there is of the wanted. */
interface Seen {
  readonly missing: readonly Partition[];
  /** Tables with the name of a partition. */
  readonly detached: readonly Partition[];
  readonly isComplete: boolean;
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

/** The oldest first. */
function partitionsOf(instants: readonly Date[]): Partition[] {
  const months = [...new Set(instants.map((instant) => monthOf(instant).getTime()))].sort((a, b) => a - b);
  return months.flatMap((month) => PARTITIONED.map((table) => new Partition(table, new Date(month))));
}
