import { RenamedJobError } from '../../errors/renamed-job.error.js';
import type { Query } from '../connection/query.js';
import { unknownJob } from '../jobs/unknown-job.js';
import { STORED_JOB_COLUMNS, storedJob, type StoredJob, type StoredJobRow } from '../jobs/stored-job.js';
import type { Tables } from '../tables.js';

/** An operator as `readOperator` reads one. */
export interface ReadOperator {
  readonly by: string;
  readonly reason: string | null;
}

/**
 * The job that an operator names; its row is held until the transaction ends.
 * @throws UnknownJobError, RenamedJobError
 */
export async function operatedJob(query: Query, { jobSchedule }: Tables, name: string): Promise<StoredJob> {
  const [row] = await query<StoredJobRow>(`select ${STORED_JOB_COLUMNS} from ${jobSchedule} where name = $1 for no key update`, [name]);
  if (!row || row.removed_at !== null) throw await unknownJob(query, jobSchedule, name);
  if (row.yields_to !== null) throw new RenamedJobError(name, row.yields_to);
  return storedJob(row);
}
