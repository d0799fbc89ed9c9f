import pg from 'pg';
import { ClaimService } from '../../dist/lib/index.js';
import type { OwnedRun } from '../../dist/lib/options/run.js';
import { runId } from '../../dist/lib/options/run.js';
import { ReapingRepository } from '../../dist/lib/runs/reaping.repository.js';
import { renewLeases } from '../../dist/lib/runs/heartbeat/lease-keeper.js';
import { DONE } from '../../dist/lib/runs/outcome.js';
import { JobRunRepository } from '../../dist/lib/runs/job-run.repository.js';
import { Tables } from '../../dist/lib/database/tables.js';
import type { Load, LoadResult } from './load.js';
import { bystander, jobsEachSecond } from './job-class.js';
import { median } from './sampling.js';

/** How many of the last rounds are timed. */
const TIMED = 50;

const { url, runs, batch, renewals, overlap } = JSON.parse(process.argv[2]!) as Load;
const { app, jobs } = await bystander(url, jobsEachSecond(batch, 'history', { overlap }));
const claims = app.get(ClaimService, { strict: false });
const ends = app.get(JobRunRepository, { strict: false });
const reaper = app.get(ReapingRepository, { strict: false });
const names = jobs.map(({ name }) => name);
const client = new pg.Client({ connectionString: url });
await client.connect();
const tables = new Tables('public');
const times = { claimMs: [] as number[], endMs: [] as number[], outlookMs: [] as number[] };

const now = Math.floor(Date.now() / 1_000);
const rounds = Math.ceil(runs / batch);
for (let round = 0; round < rounds; round++) {
  const timed = round >= rounds - TIMED;
  // Time goes on, as it does: what is written last is the newest.
  const fireTime = (now - rounds + round) * 1_000;
  const { owned } = await timing('claimMs', timed, () =>
    claims.claimDue(jobs.map((job) => ({ job, fireTime, startsAt: fireTime, byHand: true }))),
  );
  if (timed) await timing('outlookMs', timed, () => reaper.outlook(names));
  for (let beat = 0; beat < renewals; beat++) await renewLeases(client, tables, owned.map(leaseOf), 10_000);
  const answers = await timing('endMs', timed, () => ends.endAll(owned.map((run) => ({ run, end: DONE }))));
  if (answers.filter(({ kind }) => kind === 'written').length !== batch)
    throw new Error('Not all runs were claimed and ended.');
}
await client.end();
await app.close();
const [claimMs, endMs, outlookMs] = [median(times.claimMs), median(times.endMs), median(times.outlookMs)];
console.log(JSON.stringify({ claimMs, endMs, outlookMs } satisfies LoadResult));

async function timing<Answer>(kind: keyof typeof times, timed: boolean, ask: () => Promise<Answer>): Promise<Answer> {
  const startedAt = performance.now();
  const answer = await ask();
  if (timed) times[kind].push(performance.now() - startedAt);
  return answer;
}

function leaseOf({ jobName, fireTime, attempt, instanceId, leaseMs }: OwnedRun) {
  return { id: runId({ jobName, fireTime }), jobName, fireTime: fireTime.toISOString(), attempt, instanceId, leaseMs };
}
