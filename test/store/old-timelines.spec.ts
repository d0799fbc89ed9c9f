import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { planCatchUp } from '../../lib/catch-up/catch-up.js';
import { fireTimesBetween } from '../../lib/cron/schedule.js';
import { aDue } from '../support/due.js';
import { aJob } from '../support/job.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  for (const table of ['job_runs', 'job_schedule', 'job_instances']) await stores.test.query(`delete from ${table}`);
});

const OLD = aJob('job', '*/2 * * * * *', { lateAfterMs: 5_000 });
const NEW = aJob('job', '1-59/2 * * * * *', { lateAfterMs: 5_000 });
const starts = (instanceId: string, jobs: JobDefinition[]) =>
  stores.schedules.declare(jobs, { instanceId, aliveMs: 60_000, jobs, handlers: [] });
const decidedSince = (seconds: number) =>
  stores.test.query('update job_schedule set effective_from = $1, decided_until = $1', [secondsAgo(seconds)]);
const claim = async ({ schedule: { expression: cron } }: JobDefinition, seconds: number) =>
  (await stores.claims.claimDue([aDue('job', secondsAgo(seconds), { cron, overlap: 'allow' })], 'thawed')).answers[0]!
    .verdict;

/** An instance that was frozen goes on where it was, before it has seen what changed meanwhile. */
describe('an old cursor', () => {
  it('claims nothing of the time in which another schedule held, although its own is back', async () => {
    await starts('old', [OLD]);
    await stores.instances.leave('old');
    await starts('new', [NEW]);
    await stores.takeOvers.takeOver([NEW], 'new');
    await stores.instances.leave('new');
    await starts('old-again', [OLD]);
    await stores.takeOvers.takeOver([OLD], 'old-again');
    expect(await claim(OLD, 20)).toBe('taken');
    expect(await stores.test.query(`select from job_runs where status = 'running'`)).toEqual([]);
  });

  it('claims nothing that a gap covers: it has a decision', async () => {
    await starts('A', [OLD]);
    await decidedSince(60);
    const skip = { ...OLD, missed: 'skip' } as const;
    await stores.catchUps.decide(skip, secondsAgo(60).getTime(), (seen) => planCatchUp(skip, seen, seen.decided));
    const [gap] = await stores.test.query<{ gap_from: Date }>('select gap_from from job_runs');
    const { answers } = await stores.claims.claimDue(
      [aDue('job', gap!.gap_from, { cron: OLD.schedule.expression, overlap: 'allow' })],
      'thawed',
    );
    expect(answers).toMatchObject([{ verdict: 'taken' }]);
  });
});

describe('a change of schedules', () => {
  it('leaves no fire time between the old one and the new one, however long it takes', async () => {
    const every = aJob('job', '* * * * * *');
    await starts('old', [every]);
    await decidedSince(3);
    await stores.instances.leave('old');
    await starts('new', [NEW]);
    await stores.test.query(`
      create function dawdle() returns trigger language plpgsql as $$ begin perform pg_sleep(1.5); return new; end $$;
      create trigger dawdle before insert on job_runs for each row execute function dawdle()`);
    await stores.takeOvers.takeOver([NEW], 'new');
    await stores.test.query('drop trigger dawdle on job_runs; drop function dawdle()');
    const [{ from, until }] = (await stores.test.query<{ from: Date; until: Date }>(`
      select run.fire_time as from, schedule.effective_from as until
      from   job_runs run join job_schedule schedule on schedule.name = run.job_name`)) as [
      { from: Date; until: Date },
    ];
    expect(fireTimesBetween('* * * * * *', { timeZone: 'UTC', from, to: until })).toEqual([]);
  });
});
