import { queryOn, type Query } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';

/** When a fact may be told again. */
export interface TellingAgain {
  /** Milliseconds. */
  readonly againAfterMs: number;
  /** It is another fact when it was told before this instant. */
  readonly unlessSince: Date | null;
}

/** Sees to it that one of all replicas tells what they all find in the database. */
export class ToldStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** @returns true for whoever is to tell it now */
  async first(key: string, { againAfterMs, unlessSince }: TellingAgain): Promise<boolean> {
    const told = await this.query(
      `insert into ${this.database.tables.jobAlerts} as alert (key, told_at)
       values ($1, clock_timestamp())
       on     conflict (key) do update
       set    told_at = excluded.told_at
       where  alert.told_at < greatest($3::timestamptz, clock_timestamp() - $2 * interval '1 millisecond')
       returning 1`,
      [key, againAfterMs, unlessSince?.toISOString() ?? null],
    );
    return told.length === 1;
  }
}
