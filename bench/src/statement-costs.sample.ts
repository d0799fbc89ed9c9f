import type { Candidate } from '../../dist/lib/jobs/job-cursors.js';
import { ClaimService } from '../../dist/lib/index.js';
import { JobInstanceStore } from '../../dist/lib/jobs/job-instance.store.js';
import { JobScheduleStore } from '../../dist/lib/jobs/job-schedule.store.js';
import { ReapingRepository } from '../../dist/lib/runs/reaping.repository.js';
import { DONE } from '../../dist/lib/runs/outcome.js';
import { JobRunRepository } from '../../dist/lib/runs/job-run.repository.js';
import type { OwnedRun } from '../../dist/lib/options/run.js';
import { bystander, jobsEachSecond } from './job-class.js';
import { median } from './sampling.js';
import type { StatementCost, StatementCosts } from './statement-costs.js';

/** What the statements cost that the simulation answers itself: measured on a real database, small and large. */
const [url, jobCount, replicas, rounds, sample] = [process.argv[2]!, ...process.argv.slice(3).map(Number)] as [
  string,
  number,
  number,
  number,
  number,
];
const { app, jobs } = await bystander(url, jobsEachSecond(jobCount, 'job', {}));
const of = <Service>(service: abstract new (...args: never[]) => Service): Service =>
  app.get<Service>(service as never, { strict: false });
const [claims, ends, schedules, instances, reaper] = [
  of(ClaimService),
  of(JobRunRepository),
  of(JobScheduleStore),
  of(JobInstanceStore),
  of(ReapingRepository),
] as const;
const names = jobs.map(({ name }) => name);
for (let index = 0; index < replicas; index++)
  await instances.announce({ instanceId: `replica-${index}`, aliveMs: 600_000, jobs, handlers: [] });

// Each sample has seconds of the past of its own: nothing is claimed twice.
let second = Math.floor(Date.now() / 1_000) - 600 - sample * 10_000;
const due = (size: number) => {
  const fireTime = --second * 1_000;
  return jobs.slice(0, size).map((job) => ({ job, fireTime, startsAt: fireTime, byHand: true }));
};
const most = Math.min(100, jobCount);
let owned: readonly OwnedRun[] = [];

async function win(candidates: readonly Candidate[]): Promise<void> {
  owned = (await claims.claimDue(candidates)).owned;
  if (owned.length !== candidates.length) throw new Error(`${owned.length} of ${candidates.length} were claimed.`);
}

/** A run that has not ended would be in the way of the next of its job. */
async function endAll(): Promise<void> {
  if (owned.length === 0) return;
  const answers = await ends.endAll(owned.map((run) => ({ run, end: DONE })));
  if (!answers.every(({ kind }) => kind === 'written')) throw new Error('Not all runs were ended.');
  owned = [];
}

const claim = await line(most, async (size) => (await endAll(), due(size)), win);
const end = await line(most, async (size) => (await endAll(), win(due(size))), endAll);
await endAll();
const look = await line(
  jobCount,
  (size) => due(size),
  (candidates) => claims.decided(candidates),
);
let watermark = Date.now() + 86_400_000;
const watermarks = () => jobs.map((job) => ({ job, decidedUntil: watermark }));
const flat = async (ask: () => Promise<unknown>): Promise<StatementCost> => ({
  baseMs: await measured(() => null, ask),
  eachMs: 0,
});
const costs: StatementCosts = {
  claim,
  end,
  look,
  presence: await flat(() => schedules.lookIn({ instanceId: 'replica-0', aliveMs: 600_000, jobs, handlers: [] }, 1e9)),
  outlook: await flat(() => reaper.outlook(names)),
  // Of a hundred replicas one is the first to remember, and the others find it remembered.
  watermark: await flat(() => schedules.remember(watermarks())),
  advance: await flat(() => ((watermark += 1_000), schedules.remember(watermarks()))),
  unregistered: await flat(() => reaper.orphanRunsOf([])),
};
await app.close();
console.log(JSON.stringify(costs));

/** Of one, and of many: what is between the two is what each costs. */
async function line<Given>(
  size: number,
  prepare: (size: number) => Given | Promise<Given>,
  ask: (given: Given) => Promise<unknown>,
): Promise<StatementCost> {
  const one = await measured(() => prepare(1), ask);
  const many = await measured(() => prepare(size), ask);
  return { baseMs: one, eachMs: Math.max(0, (many - one) / Math.max(1, size - 1)) };
}

/** The first rounds count for nothing: the statements are prepared in them. */
async function measured<Given>(
  prepare: () => Given | Promise<Given>,
  ask: (given: Given) => Promise<unknown>,
): Promise<number> {
  const values: number[] = [];
  for (let round = -3; round < rounds; round++) {
    const given = await prepare();
    const startedAt = performance.now();
    await ask(given);
    if (round >= 0) values.push(performance.now() - startedAt);
  }
  return median(values);
}
