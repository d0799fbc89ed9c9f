import type { Query } from '../connection/query.js';
import type { Tables } from '../tables.js';
import { STORED_JOB_COLUMNS, storedJob, type StoredJob, type StoredJobRow } from './stored-job.js';

/** A job as it was read, to be changed if it is still so. */
export interface JobAsRead {
  readonly stored: StoredJob;
  /** Another with every change of its row. */
  readonly seen: string;
  /** The database's clock when it was read. */
  readonly now: Date;
}

/** @returns null where no row has the name */
export async function readJob(query: Query, { jobSchedule }: Tables, name: string): Promise<JobAsRead | null> {
  const [row] = await query<StoredJobRow & { seen: string; now: Date }>(
    `select ${STORED_JOB_COLUMNS}, xmin::text as seen, clock_timestamp() as now from ${jobSchedule} where name = $1`,
    [name],
  );
  return row ? { stored: storedJob(row), seen: row.seen, now: row.now } : null;
}
