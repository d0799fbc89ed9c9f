import type { Tables } from '../tables.js';

/** SQL for the statuses of a page that is not at its end. */
export const OPEN_PAGE = `status in ('queued', 'running', 'failed')`;

/**
 * SQL that cancels what waits of the pages of an occurrence that is to be cancelled. To be run behind `lockPages`.
 * @param key SQL for: this is the occurrence, given the alias of a table
 */
export function cancelWaitingPages({ jobRuns, jobPages }: Tables, key: (alias: string) => string): string {
  return `
     update ${jobPages} page
     set    status = 'cancelled',
            reason = run.cancel_reason,
            finished_at = clock_timestamp(),
            next_attempt_at = null
     from   ${jobRuns} run
     where  ${key('page')}
     and    page.status in ('queued', 'failed')
     and    ${key('run')}
     and    run.status = 'fanned_out'
     and    run.cancel_requested_at is not null`;
}

/**
 * SQL that ends an occurrence whose pages have all ended: done, dead when one of them is, or cancelled when that was asked for. What
 * is set is only computed when it is to be. To be run behind `lockPages`.
 * @param key SQL for: this is the occurrence, given the alias of a table
 */
export function endFannedOut({ jobRuns, jobPages }: Tables, key: (alias: string) => string): string {
  const dead = `from ${jobPages} page where ${key('page')} and page.status = 'dead'`;
  return `
     update ${jobRuns} run
     set    status = case
              when run.cancel_requested_at is not null then 'cancelled'
              when exists (select ${dead}) then 'dead'
              else 'done'
            end,
            reason = case
              when run.cancel_requested_at is not null then run.cancel_reason
              else (select case when count(*) > 0 then 'pages dead: ' || count(*) || ' of ' || run.pages end ${dead})
            end,
            error = (select jsonb_build_object(
                       'name', 'DeadPages',
                       'message', 'Dead pages: ' || count(*) || ' of ' || run.pages || '. The first is ' || min(page.page) || ': '
                         || (array_agg(concat(page.error ->> 'name', ': ', page.error ->> 'message') order by page.page))[1],
                       'stack', null)
                     ${dead}
                     having count(*) > 0),
            finished_at = clock_timestamp()
     where  ${key('run')}
     and    run.status = 'fanned_out'
     and    not exists (select from ${jobPages} page where ${key('page')} and page.${OPEN_PAGE})`;
}
