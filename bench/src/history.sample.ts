import { ClaimService, ReaperService, SchedulerService } from '../../dist/lib/index.js';
import { ScheduleFollower } from '../../dist/lib/jobs/schedule-follower.service.js';
import { bystander, jobsEachSecond } from './job-class.js';
import { median } from './sampling.js';

/** Milliseconds for each. */
export interface HistorySample {
  /** Twenty occurrences that are due, claimed in one statement. */
  readonly claim: number;
  readonly reap: number;
  /** What a start asks about its jobs: how far each is decided. */
  readonly declare: number;
  readonly inventory: number;
  readonly explain: number;
}

const DUE = 20;

const [url, rounds] = process.argv.slice(2);
const { app, jobs } = await bystander(url!, jobsEachSecond(DUE, 'history'));
const [claims, reaper, follower, operator] = [ClaimService, ReaperService, ScheduleFollower, SchedulerService].map(
  (service) => app.get<never>(service as never, { strict: false }),
) as unknown as [ClaimService, ReaperService, ScheduleFollower, SchedulerService];

let second = Math.floor(Date.now() / 1_000);
const due = () => {
  const fireTime = --second * 1_000;
  return jobs.map((job) => ({ job, fireTime, startsAt: fireTime, byHand: true }));
};
const sample: HistorySample = {
  claim: await measured(async () => claims.claimDue(due())),
  reap: await measured(async () => reaper.reap()),
  declare: await measured(async () => follower.declare()),
  inventory: await measured(async () => operator.inventory()),
  explain: await measured(async () => operator.explain(jobs[0]!.name, new Date(second * 1_000))),
};
await app.close();
console.log(JSON.stringify(sample));

/** The first counts for nothing: in it the code is cold, and the statements are prepared. */
async function measured(work: () => Promise<unknown>): Promise<number> {
  const values: number[] = [];
  for (let round = 0; round <= Number(rounds); round++) {
    const startedAt = performance.now();
    await work();
    if (round > 0) values.push(performance.now() - startedAt);
  }
  return median(values);
}
