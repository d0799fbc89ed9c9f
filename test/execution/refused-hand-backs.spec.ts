import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import type { SchedulerFact } from '../../lib/observe/scheduler-event.js';
import { GONE_FOR_MS } from '../../lib/runs/fast-failover.service.js';
import { FastFailoverService } from '../../lib/runs/fast-failover.service.js';
import { GivenUpRuns } from '../../lib/runs/fast-failover.service.js';
import { ReapingRepository } from '../../lib/runs/reaping.repository.js';
import { InFlightRuns } from '../../lib/runs/in-flight-runs.js';
import { UnconfirmedClaims } from '../../lib/runs/claim.service.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

const FIRE_TIME = secondsAgo(10);
const JOBS = ['a', 'bad', 'c'];

let stores: Stores;
let events: SchedulerEvents;
let told: SchedulerFact[];
beforeAll(async () => {
  stores = await openStores();
  await stores.test.query(
    `create function refuse() returns trigger language plpgsql as $$
     begin
       if new.job_name = 'bad' then raise exception 'not this job'; end if;
       return new;
     end $$`,
  );
  await stores.test.query('create trigger refuse before update on job_runs for each row execute function refuse()');
});
afterAll(() => stores.close());
beforeEach(async () => {
  await stores.test.query('delete from job_runs');
  await stores.test.query(
    `insert into job_runs (job_name, fire_time, status, trigger, attempt, claimed_by, claim, started_at, lease_until)
     select name, $2, 'running', 'schedule', 1, 'me', 7, now(), now() + interval '1 minute' from unnest($1::text[]) name`,
    [JOBS, FIRE_TIME],
  );
  events = new SchedulerEvents();
  told = [];
  events.subscribe((event) => told.push(event));
});

const attempts = JOBS.map((jobName) => ({ jobName, fireTime: FIRE_TIME, attempt: 1 }));
const untouched = async () =>
  (await stores.test.query<{ job_name: string }>('select job_name from job_runs where releases = 0')).map(
    ({ job_name }) => job_name,
  );
const refused = () => told.filter(({ type }) => type === 'data.refused');

describe('a row that a trigger of the application’s refuses', () => {
  it('keeps no other run from being given up; it is told once, and let go after some tries', async () => {
    const givenUp = new GivenUpRuns(new ReapingRepository(stores.database), events, 'me');
    for (const attempt of attempts) givenUp.add(attempt);
    await givenUp.giveUp();
    expect(await untouched()).toEqual(['bad']);
    expect(refused()).toMatchObject([
      { jobName: 'bad', fireTime: FIRE_TIME, step: 'give up', error: { message: 'not this job' } },
    ]);
    let passes = 1;
    while ((await givenUp.giveUp()) <= 1_000) passes += 1;
    expect(passes).toBeLessThan(10);
    expect(refused()).toHaveLength(1);
  });

  it('keeps no other run from being taken over from an instance that is gone, and is told once', async () => {
    await stores.test.query(
      `insert into job_instances (id, jobs, handlers, alive_until, lifeline) values ('me', '{}', '[]', now(), 7)
       on conflict do nothing`,
    );
    const failover = new FastFailoverService(
      { fastFailover: true } as never,
      'other',
      new ReapingRepository(stores.database),
      { wake: () => {} } as never,
      { get: () => ({}) } as never,
      { nextDueAt: Infinity } as never,
      { now: () => Date.now() } as never,
      events,
    );
    failover.attend();
    await failover.look();
    const now = process.hrtime.bigint;
    const later = jest
      .spyOn(process.hrtime, 'bigint')
      .mockImplementation(() => now() + BigInt(GONE_FOR_MS) * 1_000_000n);
    failover.attend();
    await failover.look();
    await failover.look();
    later.mockRestore();
    const cut = await stores.test.query<{ job_name: string }>('select job_name from job_runs where reason is not null');
    expect(cut.map(({ job_name }) => job_name).sort()).toEqual(['a', 'c']);
    expect(refused()).toMatchObject([
      { jobName: 'bad', fireTime: FIRE_TIME, step: 'take over', error: { message: 'not this job' } },
    ]);
    expect(told.filter(({ type }) => type === 'instance.gone')).toMatchObject([{ instanceId: 'me', runs: 2 }]);
  });

  it('keeps no other claim whose answer was lost from being handed back, and is told once', async () => {
    const lost = new UnconfirmedClaims(stores.runs, new InFlightRuns(events), events, 'me');
    lost.remember(attempts.map((attempt) => ({ ...attempt, leaseMs: 60_000, claim: 7 })));
    await lost.handBack();
    expect(await untouched()).toEqual(['bad']);
    expect(told.filter(({ type }) => type === 'run.released')).toMatchObject([{ jobName: 'a' }, { jobName: 'c' }]);
    await lost.handBack();
    expect(refused()).toMatchObject([
      { jobName: 'bad', fireTime: FIRE_TIME, step: 'hand back', error: { message: 'not this job' } },
    ]);
  });
});
