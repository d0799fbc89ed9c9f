import type pg from 'pg';

const MONTHS = 24;

const JOBS = 200;

/**
 * Makes a history of so many runs that are done, over two years in monthly partitions. It is written as it is, past the
 * triggers that let no run begin as done.
 */
export async function fillHistory(client: pg.Client, from: number, to: number): Promise<void> {
  for (let month = 0; month < MONTHS; month++) await fillMonth(client, month + 1, Math.floor(from / MONTHS), Math.floor(to / MONTHS));
  await client.query('vacuum analyze job_runs');
}

/** The runs of one month that have these numbers, all fire times different: by the second, and by the job. */
export async function fillMonth(client: pg.Client, monthsAgo: number, from: number, to: number): Promise<void> {
  const now = new Date();
  const begin = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - monthsAgo, 1));
  const end = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - monthsAgo + 1, 1));
  const name = `job_runs_${begin.getUTCFullYear()}_${String(begin.getUTCMonth() + 1).padStart(2, '0')}`;
  await client.query(`set session_replication_role = replica`);
  await client.query(`create table if not exists ${name} partition of job_runs for values from ('${begin.toISOString()}') to ('${end.toISOString()}')`);
  await client.query(
    `insert into ${name} (job_name, fire_time, status, trigger, claimed_by, lease_until, attempt, started_at, finished_at)
     select 'history-' || n % ${JOBS}, at, 'done', 'schedule', 'somebody', at + interval '1 minute', 1, at, at + interval '1 second'
     from   generate_series($1::bigint, $2::bigint - 1) as n
     cross  join lateral (select $3::timestamptz + (n / ${JOBS}) % 2400000 * interval '1 second' as at) as due`,
    [from, to, begin.toISOString()],
  );
  await client.query('reset session_replication_role');
}
