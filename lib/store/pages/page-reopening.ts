import type { RunKey } from '../../domain/runs/run.js';
import type { Query } from '../connection/query.js';
import type { Tables } from '../tables.js';

/** SQL for: a run died because some of its pages did, and not its tick. Begun again, its tick would only find that all is published. */
export const DIED_OF_PAGES = `(status = 'dead' and pages is not null)`;

/** What a page that somebody threw away says. */
const DISCARDED = 'discarded: %';

/**
 * SQL that queues again what is not done of an occurrence, but for what was thrown away. Attempts so far do not count any more, and
 * tickets that a queue may still have are worth nothing.
 * @param which SQL from `from` or `where` on, given the alias `page`
 * @param by SQL for who has it done
 */
export function reopening({ jobPages }: Tables, which: string, by: string): string {
  return `update ${jobPages} page
     set    status = 'queued',
            reason = 'replayed by ' || ${by},
            releases = page.attempt,
            ticket = page.ticket + 1,
            enqueued_at = null,
            finished_at = null,
            next_attempt_at = clock_timestamp()
     ${which}
     and    page.status in ('queued', 'failed', 'dead', 'cancelled')
     and    coalesce(page.reason, '') not like '${DISCARDED}'`;
}

/** Queues again what is not done of one occurrence. */
export async function reopenPages(query: Query, tables: Tables, { jobName, fireTime }: RunKey, by: string): Promise<void> {
  await query(reopening(tables, `where  page.job_name = $1 and page.fire_time = $2`, '$3::text'), [jobName, fireTime.toISOString(), by]);
}
