import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { SchedulerFact } from '../../lib/observe/scheduler-event.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { ClaimService } from '../../lib/runs/claim.service.js';
import { InFlightRun, InFlightRuns } from '../../lib/runs/in-flight-runs.js';
import { UnconfirmedClaims } from '../../lib/runs/claim.service.js';
import { DatabaseTime } from '../../lib/database/clock.js';
import { aJob } from '../support/job.js';
import { latch } from '../support/latch.js';
import { aRun } from '../support/run.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

const FIRE_TIME = secondsAgo(5);

let stores: Stores;
let runs: InFlightRuns;
let lost: UnconfirmedClaims;
let told: SchedulerFact[];
beforeAll(async () => {
  stores = await openStores();
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query('delete from job_runs');
  const events = new SchedulerEvents();
  told = [];
  events.subscribe((event) => told.push(event));
  runs = new InFlightRuns(events);
  lost = new UnconfirmedClaims(stores.runs, runs, events, 'me');
});

const given = (attempt: number, by: string, cancel: string | null = null, number = 7) =>
  stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, attempt, claimed_by, claim, lease_until, cancel_requested_at, cancel_reason)
     values ('job', $1, 'running', 'schedule', $2, $3, $5, now() + interval '1 minute', case when $4::text is not null then now() end, $4)`,
    [FIRE_TIME, attempt, by, cancel, number],
  );
const claim = (attempt: number, leaseMs = 60_000) => ({
  jobName: 'job',
  fireTime: FIRE_TIME,
  attempt,
  leaseMs,
  claim: 7,
});
const row = async () =>
  (await stores.test.query<Record<string, unknown>>('select status, attempt, releases, reason from job_runs'))[0];
const RUNNING = { status: 'running', releases: 0 };

describe('a claim whose answer was lost', () => {
  it('is handed back where it was carried out, and that is told', async () => {
    await given(2, 'me');
    lost.remember([claim(2)]);
    expect(await lost.handBack()).toBe(Infinity);
    expect(await row()).toEqual({
      status: 'queued',
      attempt: 2,
      releases: 1,
      reason: 'handed back: the answer to its claim was lost',
    });
    expect(told).toMatchObject([{ type: 'run.released', jobName: 'job', fireTime: FIRE_TIME, attempt: 2 }]);
  });

  it.each<[string, number, string, number]>([
    ['another attempt', 3, 'me', 7],
    ['another instance', 2, 'another', 7],
    ['a later claim of the same instance, whose answer is on its way', 2, 'me', 8],
  ])('is none of %s', async (_whose, attempt, by, number) => {
    await given(attempt, by, null, number);
    lost.remember([claim(2)]);
    expect(await lost.handBack()).toBeLessThan(Infinity);
    expect(await row()).toMatchObject(RUNNING);
    expect(told).toEqual([]);
  });

  it('is none of a run that is under way here', async () => {
    await given(2, 'me');
    lost.remember([claim(2)]);
    runs.add(new InFlightRun(aRun({ fireTime: FIRE_TIME, attempt: 2 }), aJob('job', '* * * * *')));
    expect(await lost.handBack()).toBe(Infinity);
    expect(await row()).toMatchObject(RUNNING);
  });

  it('is looked for until its lease is over', async () => {
    lost.remember([claim(2, 0)]);
    expect(await lost.handBack()).toBe(Infinity);
    await given(2, 'me');
    await lost.handBack();
    expect(await row()).toMatchObject(RUNNING);
  });

  it('ends as cancelled when somebody wanted that meanwhile', async () => {
    await given(2, 'me', 'wrong month');
    lost.remember([claim(2)]);
    await lost.handBack();
    expect(await row()).toMatchObject({ status: 'cancelled', reason: 'wrong month' });
  });

  it('hands back nothing of a later claim of the same instance whose answer is slow', async () => {
    const sent = latch();
    const answer = latch();
    let claimed = 0;
    const store = {
      // The first never comes to the database; the second is carried out, and its answer takes a while.
      claimDue: async (...[due, instanceId, number]: Parameters<Stores['claims']['claimDue']>) => {
        if (++claimed === 1) throw new Error('Connection terminated unexpectedly');
        const answers = await stores.claims.claimDue(due, instanceId, number);
        sent.open();
        await answer.opened;
        return answers;
      },
    };
    const claims = new ClaimService(
      store as never,
      null as never,
      new DatabaseTime(),
      new SchedulerEvents(),
      lost,
      'me',
      { off: async () => new Map() } as never,
    );
    const candidate = { job: aJob('job', '* * * * * *'), fireTime: FIRE_TIME.getTime(), startsAt: FIRE_TIME.getTime() };
    await expect(claims.claimDue([candidate])).rejects.toThrow('Connection terminated');
    const second = claims.claimDue([candidate]);
    await sent.opened;
    expect(await lost.handBack()).toBeLessThan(Infinity);
    answer.open();
    expect((await second).owned).toMatchObject([{ attempt: 1 }]);
    expect(await row()).toMatchObject({ ...RUNNING, attempt: 1 });
  });

  it.each<[string, Error, number]>([
    ['a line that broke', new Error('Connection terminated unexpectedly'), 2],
    [
      'a server that shut the session down',
      Object.assign(new Error('terminating connection'), { severity: 'FATAL', code: '57P01' }),
      2,
    ],
    ['a server that refused it', Object.assign(new Error('no such table'), { severity: 'ERROR', code: '42P01' }), 0],
  ])('after %s %s is taken for %i that may be carried out', async (_what, failure, remembered) => {
    const taken: unknown[] = [];
    const store = { claimDue: () => Promise.reject(failure), claimWaiting: () => Promise.reject(failure) };
    const claims = new ClaimService(
      store as never,
      null as never,
      new DatabaseTime(),
      new SchedulerEvents(),
      { remember: (all: unknown[]) => taken.push(...all) } as never,
      'me',
      { off: async () => new Map() } as never,
    );
    const job = aJob('job', '* * * * *');
    await expect(claims.claimDue([{ job, fireTime: FIRE_TIME.getTime(), startsAt: FIRE_TIME.getTime() }])).rejects.toBe(
      failure,
    );
    await expect(
      claims.claimWaiting([{ jobName: 'job', fireTime: FIRE_TIME, attempt: 4 }], new Map([['job', job]])),
    ).rejects.toBe(failure);
    expect(taken).toMatchObject(
      [{ jobName: 'job', fireTime: FIRE_TIME, attempt: 1 }, { attempt: 5 }].slice(0, remembered),
    );
  });
});
