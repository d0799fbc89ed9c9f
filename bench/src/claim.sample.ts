import pg from 'pg';
import { ClaimService } from '../../dist/lib/index.js';
import { bystander, jobsEachSecond } from './job-class.js';
import { median } from './sampling.js';

/** Milliseconds for one statement: through the service, and raw, by turns. */
export interface ClaimSample {
  readonly single: { readonly ours: number; readonly raw: number };
  readonly batch: { readonly ours: number; readonly raw: number };
}

const BATCH = 100;

const [url, rounds, sample] = process.argv.slice(2);
const { app, jobs } = await bystander(url!, jobsEachSecond(BATCH, 'job'));
const claims = app.get(ClaimService, { strict: false });
const client = new pg.Client({ connectionString: url });
await client.connect();
await client.query(
  'create table if not exists bare_runs (job_name text, fire_time timestamptz, claimed_by text, lease_until timestamptz, primary key (job_name, fire_time))',
);

// Each sample has seconds of the past of its own: nothing is claimed twice.
let second = Math.floor(Date.now() / 1_000) - 600 - Number(sample) * 10_000;
await measure(5, 1);
const single = await measure(Number(rounds), 1);
const batch = await measure(Math.ceil(Number(rounds) / 10), BATCH);
await client.end();
await app.close();
console.log(JSON.stringify({ single, batch } satisfies ClaimSample));

async function measure(count: number, size: number): Promise<ClaimSample['single']> {
  const ours: number[] = [];
  const raw: number[] = [];
  for (let round = 0; round < count; round++) {
    const fireTime = --second * 1_000;
    const due = jobs.slice(0, size).map((job) => ({ job, fireTime, startsAt: fireTime, byHand: true }));
    ours.push(await timed(async () => (await claims.claimDue(due)).owned.length, size));
    raw.push(
      await timed(
        () =>
          insert(
            due.map(({ job }) => job.name),
            fireTime,
          ),
        size,
      ),
    );
  }
  return { ours: median(ours), raw: median(raw) };
}

async function timed(work: () => Promise<number>, expected: number): Promise<number> {
  const startedAt = performance.now();
  const won = await work();
  if (won !== expected) throw new Error(`${won} of ${expected} were claimed.`);
  return performance.now() - startedAt;
}

async function insert(names: readonly string[], fireTime: number): Promise<number> {
  const { rowCount } = await client.query({
    name: 'claim',
    text: `insert into bare_runs (job_name, fire_time, claimed_by, lease_until)
           select name, $2, 'bench', clock_timestamp() + interval '1 minute'
           from   unnest($1::text[]) as given (name)
           on conflict do nothing
           returning job_name`,
    values: [names, new Date(fireTime).toISOString()],
  });
  return rowCount!;
}
