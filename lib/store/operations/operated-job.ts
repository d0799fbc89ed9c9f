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
export async function operatedJob(query: Query, tables: Tables, name: string): Promise<StoredJob> {
  const [operated] = await query<{ verdict: string | null; facts: { yieldsTo: string } }>(`select * from ${tables.qualify('job_operated_1')}($1)`, [name]);
  if (operated!.verdict === 'unknown job') throw await unknownJob(query, tables.jobSchedule, name);
  if (operated!.verdict === 'renamed') throw new RenamedJobError(name, operated!.facts.yieldsTo);
  const [row] = await query<StoredJobRow>(`select ${STORED_JOB_COLUMNS} from ${tables.jobSchedule} where name = $1`, [name]);
  return storedJob(row!);
}
