import type { PageProgress } from '../../domain/effects/page.js';
import type { RunKey } from '../../domain/runs/run.js';
import type { Query } from '../connection/query.js';
import type { Tables } from '../tables.js';

/** Counts an occurrence's pages. */
export async function pageProgress(query: Query, { jobPages }: Tables, { jobName, fireTime }: RunKey): Promise<PageProgress> {
  const [row] = await query<PageProgress>(
    `select count(*)::integer as total,
            count(*) filter (where status = 'done')::integer as done,
            count(*) filter (where status = 'queued')::integer as queued,
            count(*) filter (where status = 'running')::integer as running,
            count(*) filter (where status = 'failed')::integer as failed,
            count(*) filter (where status = 'dead')::integer as dead,
            count(*) filter (where status = 'cancelled')::integer as cancelled
     from   ${jobPages}
     where  job_name = $1
     and    fire_time = $2`,
    [jobName, fireTime.toISOString()],
  );
  return row!;
}
