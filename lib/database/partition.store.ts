import { monthOf, nextMonth } from '../options/retention.js';
import { SetupError } from '../errors/errors.js';
import type { SchedulerDatabase } from './scheduler-database.js';
import { isMissingPartition } from './sql-state.js';

/** A partition that is not there. */
interface MissingRow {
  partition_name: string;
  partitioned: string;
  partition_month: Date;
  /** A table has its name, and is none. */
  is_in_the_way: boolean;
}

/** The monthly partitions of `job_runs`, `receipts` and `job_pages`. */
export class PartitionStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Makes the partitions that hold the given instants, where they are missing. Safe on every replica at once.
   * @param over those of months that are over: whoever detaches one is not told before something is due in it
   * @returns the names of those made
   * @throws SetupError when somebody has detached one and left it there
   */
  async ensure(instants: readonly Date[], over: readonly Date[] = []): Promise<string[]> {
    const months = monthsOf([...over, ...instants]);
    if ((await this.missing(months)).length === 0) return [];
    const missing = await this.database.call<MissingRow>('partitions_make_1', [months]);
    // The others are made all the same.
    const past = monthsOf(over);
    const inTheWay = missing.find((row) => row.is_in_the_way && !past.includes(row.partition_month.toISOString()));
    if (inTheWay) throw this.detachedError(inTheWay);
    return missing.flatMap((row) => (row.is_in_the_way ? [] : row.partition_name));
  }

  /** True when all partitions that hold the instant exist. */
  async areThere(instant: Date): Promise<boolean> {
    return (await this.missing(monthsOf([instant]))).length === 0;
  }

  /**
   * Where the partitions end that follow each other from the instant's month on; its beginning when that one is
   * missing.
   */
  async end(instant: Date): Promise<Date> {
    let month = monthOf(instant);
    while (await this.areThere(month)) month = nextMonth(month);
    return month;
  }

  /**
   * Does the work; when it fails because a partition is missing, makes those for the instants it names and does it
   * again.
   */
  async makingSure<Result>(
    instants: () => readonly Date[] | Promise<readonly Date[]>,
    work: () => Promise<Result>,
  ): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (!isMissingPartition(error)) throw error;
      await this.ensure(await instants());
      return work();
    }
  }

  private missing(months: readonly string[]): Promise<MissingRow[]> {
    return this.database.call<MissingRow>('partitions_missing_1', [months]);
  }

  private detachedError({ partition_name, partitioned, partition_month }: MissingRow): SetupError {
    const { tables } = this.database;
    const [name, table] = [tables.qualify(partition_name), tables.qualify(partitioned)];
    const [from, until] = [partition_month.toISOString(), nextMonth(partition_month).toISOString()];
    return new SetupError(
      'detached-partition',
      `Table ${name} is there and is no partition of ${table}, so that what is due from ${from} to ${until} has no place. ` +
        `Give it another name (alter table ${name} rename to …), and the scheduler makes a new one; ` +
        `or attach it again: alter table ${table} attach partition ${name} for values from ('${from}') to ('${until}').`,
    );
  }
}

/** Their months' first instants, the oldest first. */
function monthsOf(instants: readonly Date[]): string[] {
  return [...new Set(instants.map((instant) => monthOf(instant).toISOString()))].sort();
}
