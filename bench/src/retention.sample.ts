import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { ClaimService } from '../../dist/lib/index.js';
import type { AgedPartition } from '../../dist/lib/options/retention.js';
import { RetentionStore } from '../../dist/lib/maintenance/retention.store.js';
import { bystander, jobsEachSecond } from './job-class.js';

/** Milliseconds of the slowest claim. */
export interface RetentionSample {
  /** While nothing is dropped, for more than a minute. */
  readonly quiet: number;
  /** While a month is dropped, and after it as long as before. */
  readonly dropping: number;
  /** The same while a transaction is open that has read the tables: the drop waits for it. */
  readonly besideReader: number;
  /** A plain `drop table` beside such a transaction, for comparison. */
  readonly plain: number;
  readonly dropMs: number;
}

const DUE = 20;

const DAY_MS = 86_400_000;

const [url, seconds, quietSeconds] = process.argv.slice(2);
const { app, jobs } = await bystander(url!, jobsEachSecond(DUE, 'history'));
const claims = app.get(ClaimService, { strict: false });
const store = app.get(RetentionStore, { strict: false });
const millis = Number(seconds) * 1_000;

let second = Math.floor(Date.now() / 1_000);
await slowestClaim(() => sleep(millis / 2));
// Long enough for what goes on besides. That statements are planned anew, as a drop makes them, is not in it.
const quiet = await slowestClaim(() => sleep(Number(quietSeconds) * 1_000));

let dropMs = 0;
const month = await oldestMonth();
const dropping = await slowestClaim(async () => {
  const startedAt = performance.now();
  for (const partition of month) await drop(partition);
  dropMs = performance.now() - startedAt;
  await sleep(Math.max(0, millis - dropMs));
});
const reader = new pg.Client({ connectionString: url });
await reader.connect();
const [next] = await oldestMonth();
const besideReader = await slowestBesideReader(() => drop(next!));
const [third] = await oldestMonth();
const other = new pg.Client({ connectionString: url });
await other.connect();
const plain = await slowestBesideReader(() => other.query(`drop table ${third!.name}`));
await other.end();
await reader.end();
await app.close();
console.log(JSON.stringify({ quiet, dropping, besideReader, plain, dropMs } satisfies RetentionSample));

/** The partitions of the oldest month that has runs, in the order in which they go. */
async function oldestMonth(): Promise<AgedPartition[]> {
  const { partitions } = await store.aged(40 * DAY_MS);
  const oldest = partitions.find(({ table }) => table === 'job_runs')!;
  return partitions.filter(({ until }) => until === oldest.until);
}

async function drop(partition: AgedPartition): Promise<void> {
  const { kind } = await store.forget(partition, Date.now() - 40 * DAY_MS);
  if (kind !== 'dropped') throw new Error(`${partition.name} was not dropped: ${kind}.`);
}

/** A transaction that has read the tables ends halfway through. */
async function slowestBesideReader(work: () => Promise<unknown>): Promise<number> {
  await reader.query('begin');
  await reader.query('select from job_runs limit 1');
  return slowestClaim(async () => {
    const dropped = work();
    await sleep(millis / 2);
    await reader.query('commit');
    await dropped;
  });
}

/** Twenty due occurrences are claimed in one statement, again and again, while the work goes on. */
async function slowestClaim(work: () => Promise<unknown>): Promise<number> {
  let isOver = false;
  const working = work().finally(() => (isOver = true));
  let slowest = 0;
  while (!isOver) {
    const fireTime = --second * 1_000;
    const startedAt = performance.now();
    const { owned } = await claims.claimDue(jobs.map((job) => ({ job, fireTime, startsAt: fireTime, byHand: true })));
    slowest = Math.max(slowest, performance.now() - startedAt);
    if (owned.length !== DUE) throw new Error(`${owned.length} of ${DUE} were claimed.`);
    await sleep(10);
  }
  await working;
  return slowest;
}
