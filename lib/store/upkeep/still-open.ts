import type { AgedPartition, StillOpen } from '../../domain/forgetting.js';
import type { Query } from '../connection/query.js';
import type { Tables } from '../tables.js';
import { boundOf } from './aged-partitions.js';

/**
 * What keeps the months that a partition holds, in all three tables: each is looked for in an index of what is open. Pages
 * and receipts are also kept by every run that is left of these months, whatever became of it: it may be replayed.
 * @param detached the partition's own name, when its table does not have it any more
 */
export async function stillOpen(query: Query, tables: Tables, { table, from, until }: AgedPartition, detached?: string): Promise<StillOpen> {
  const of = (wanted: AgedPartition['table']) => tables.qualify(wanted === table && detached !== undefined ? detached : wanted);
  const within = 'fire_time >= $1 and fire_time < $2';
  const [open] = await query<StillOpen>(
    `select (select count(*)::integer from ${of('job_runs')} where ${within} and status in ('running', 'fanned_out'))
              + (select count(*)::integer from ${of('job_runs')} where ${within} and status in ('queued', 'failed', 'orphaned'))
              + (select count(*)::integer from (select from ${of('job_runs')} where ${within} and $3 limit 1) one) as runs,
            (select count(*)::integer from ${of('job_pages')} where ${within} and status in ('queued', 'running', 'failed')) as pages,
            (select count(*)::integer from ${of('receipts')} where ${within} and state in ('open', 'in_doubt')) as "inDoubt",
            (select count(*)::integer
             from   ${tables.jobBackfills}
             where  finished_at is null
             and    cancelled_at is null
             and    range_from < $2
             and    range_to >= $1) as backfills`,
    [boundOf(from), boundOf(until), table !== 'job_runs'],
  );
  return open!;
}
