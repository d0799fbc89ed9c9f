import type pg from 'pg';

const MONTHS = 24;

const JOBS = 200;

interface Month {
  readonly name: string;
  readonly begin: string;
  readonly end: string;
}

/** The partitions of two years, in front of those that the scheduler has made. */
export async function makeMonths(client: pg.Client): Promise<void> {
  for (const month of months()) await make(client, month);
}

/**
 * Makes a history of so many runs that are done, over two years in monthly partitions. It is written as it is, past the
 * triggers that let no run begin as done.
 */
export async function fillHistory(client: pg.Client, from: number, to: number): Promise<void> {
  // Each month gets its share.
  for (const month of months()) await fill(client, month, Math.floor(from / MONTHS), Math.floor(to / MONTHS));
  await client.query('vacuum analyze job_runs');
}

/** The same for one month, which is made if it is not there. */
export async function fillMonth(client: pg.Client, monthsAgo: number, runs: number): Promise<void> {
  await make(client, monthOf(monthsAgo));
  await fill(client, monthOf(monthsAgo), 0, runs);
}

async function make(client: pg.Client, { name, begin, end }: Month): Promise<void> {
  await client.query(
    `create table if not exists ${name} partition of job_runs for values from ('${begin}') to ('${end}')`,
  );
}

/** All fire times different: by the second, and by the job. */
async function fill(client: pg.Client, { name, begin }: Month, from: number, to: number): Promise<void> {
  await client.query(`set session_replication_role = replica`);
  await client.query(
    `insert into ${name} (job_name, fire_time, status, trigger, claimed_by, lease_until, attempt, started_at, finished_at)
     select 'history-' || n % ${JOBS}, at, 'done', 'schedule', 'somebody', at + interval '1 minute', 1, at, at + interval '1 second'
     from   generate_series($1::bigint, $2::bigint - 1) as n
     cross  join lateral (select $3::timestamptz + (n / ${JOBS}) % 2400000 * interval '1 second' as at) as due`,
    [from, to, begin],
  );
  await client.query('reset session_replication_role');
}

function months(): Month[] {
  return Array.from({ length: MONTHS }, (_, index) => monthOf(index + 1));
}

function monthOf(monthsAgo: number): Month {
  const now = new Date();
  const [begin, end] = [monthsAgo, monthsAgo - 1].map((back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1)).toISOString(),
  );
  return { name: `job_runs_${begin!.slice(0, 7).replace('-', '_')}`, begin: begin!, end: end! };
}
