import type pg from 'pg';

const MONTHS = 24;

const JOBS = 200;

/** The partitions of two years, in front of those that the scheduler has made. */
export async function makeMonths(client: pg.Client): Promise<void> {
  for (const { name, begin, end } of months()) {
    await client.query(`create table if not exists ${name} partition of job_runs for values from ('${begin}') to ('${end}')`);
  }
}

function months(): { name: string; begin: string; end: string }[] {
  const now = new Date();
  return Array.from({ length: MONTHS }, (_, month) => {
    const [begin, end] = [month + 1, month].map((back) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1)).toISOString());
    return { name: `job_runs_${begin!.slice(0, 7).replace('-', '_')}`, begin: begin!, end: end! };
  });
}

/**
 * Makes a history of so many runs that are done, over two years in monthly partitions. It is written as it is, past the
 * triggers that let no run begin as done.
 */
export async function fillHistory(client: pg.Client, from: number, to: number): Promise<void> {
  await client.query(`set session_replication_role = replica`);
  for (const { name, begin } of months()) {
    // Each month gets its share, all fire times different: by the second, and by the job.
    await client.query(
      `insert into ${name} (job_name, fire_time, status, trigger, claimed_by, lease_until, attempt, started_at, finished_at)
       select 'history-' || n % ${JOBS}, at, 'done', 'schedule', 'somebody', at + interval '1 minute', 1, at, at + interval '1 second'
       from   generate_series($1::bigint, $2::bigint - 1) as n
       cross  join lateral (select $3::timestamptz + (n / ${JOBS}) % 2400000 * interval '1 second' as at) as due`,
      [Math.floor(from / MONTHS), Math.floor(to / MONTHS), begin],
    );
  }
  await client.query('reset session_replication_role');
  await client.query('vacuum analyze job_runs');
}
