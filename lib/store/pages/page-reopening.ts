import type { RunKey } from '../../domain/runs/run.js';
import type { Query } from '../connection/query.js';
import type { Tables } from '../tables.js';

/** Queues again what is not done of one occurrence. Its pages begin once the run is under way. */
export async function reopenPages(query: Query, tables: Tables, { jobName, fireTime }: RunKey, by: string): Promise<void> {
  await query(`select ${tables.qualify('page_reopen_1')}($1, $2, null, $3)`, [jobName, fireTime.toISOString(), by]);
}
