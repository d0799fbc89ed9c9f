import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { PageAttemptStore, FanOutStore, PageStore } from '../../lib/fan-out/page.repository.js';
import { PageKeeper, PageKeepingStore } from '../../lib/fan-out/page-keeper.service.js';
import { PageHandOver } from '../../lib/fan-out/page-queues.js';
import type { PageTicket } from '../../lib/fan-out/page.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import type { OwnedRun } from '../../lib/options/run.js';
import { aDue } from '../support/due.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

const FIRE_TIME = secondsAgo(60);
const JOBS = ['a', 'bad', 'c'];

let stores: Stores;
let keeper: PageKeeper;
let handed: string[];
let refused: string[];
beforeAll(async () => {
  stores = await openStores();
  await stores.test.query(
    `create function refuse() returns trigger language plpgsql as $$
     begin
       if new.job_name = 'bad' then raise exception 'not this page'; end if;
       return new;
     end $$`,
  );
  await stores.test.query('create trigger refuse before update on job_pages for each row execute function refuse()');
});
afterAll(() => stores.close());

/**
 * Each job has an occurrence with one page, which the queue has. From then on a trigger of the application's refuses
 * what is done to that of `bad`.
 */
beforeEach(async () => {
  const { database, partitions, test } = stores;
  await test.query('truncate job_runs, job_pages, job_schedule');
  await test.query('alter table job_pages disable trigger refuse');
  const pages = new PageStore(database, partitions);
  for (const jobName of JOBS) {
    const run = { jobName, fireTime: FIRE_TIME, attempt: 1, instanceId: 'A' } as OwnedRun;
    await stores.claims.claimDue([aDue(jobName, FIRE_TIME)], 'A');
    await pages.add(run, [{ page: 'one', data: null }]);
    await pages.handedOver(await pages.toHandOver(run, ['one']));
    await new FanOutStore(database).complete(run);
  }
  await test.query(`update job_pages set created_at = now() - interval '1 hour'`);
  const events = new SchedulerEvents();
  refused = [];
  events
    .of('data.refused')
    .subscribe(({ jobName, step, error }) => refused.push(`${step} ${jobName}: ${error.message}`));
  handed = [];
  const queue = {
    enqueue: async (_job: string, tickets: readonly PageTicket[]) =>
      void handed.push(...tickets.map(({ jobName, ticket }) => `${jobName} ${ticket}`)),
  };
  keeper = new PageKeeper(
    { pollIntervalMs: 5_000 } as never,
    'A',
    { pageJobs: () => JOBS } as never,
    new PageKeepingStore(database),
    new PageAttemptStore(database),
    { ended: () => {} } as never,
    new PageHandOver({ open: async () => queue } as never, pages, events),
    { list: () => [] } as never,
    events,
  );
});

const refuse = () => stores.test.query('alter table job_pages enable trigger refuse');
const found = (what: string) =>
  stores.test.query(
    `select job_name, ${what} as found from job_pages join job_runs using (job_name, fire_time) order by job_name`,
  );

describe('a page that a trigger of the application’s refuses', () => {
  it('when its occurrence is to be cancelled, keeps no other from that, and no page from its queue; it is told once', async () => {
    await stores.test.query(
      `update job_runs set cancel_requested_at = now(), cancel_reason = 'wrong month' where job_name <> 'c'`,
    );
    await stores.test.query(`update job_pages set enqueued_at = null where job_name = 'c'`);
    await refuse();
    await keeper.keep();
    await keeper.keep();
    expect(await found('job_runs.status')).toEqual([
      { job_name: 'a', found: 'cancelled' },
      { job_name: 'bad', found: 'fanned_out' },
      { job_name: 'c', found: 'fanned_out' },
    ]);
    expect(handed).toEqual(['c 0']);
    expect(refused).toEqual(['settle bad: not this page']);
  });

  it('when the queue has lost it, keeps no other lost page from its queue, and is told once', async () => {
    await stores.test.query(`update job_pages set enqueued_at = now() - interval '1 hour'`);
    await refuse();
    await keeper.keep();
    expect(handed).toEqual(['a 1', 'c 1']);
    expect(refused).toEqual(['recover bad: not this page']);
  });

  it('when the queue was given it, keeps no other run’s pages from theirs; it rests, and is told once', async () => {
    await stores.test.query(`update job_pages set enqueued_at = null`);
    await refuse();
    expect(await keeper.keep()).toBeLessThanOrEqual(10_000);
    await keeper.keep();
    expect(await found('enqueued_at is not null')).toEqual([
      { job_name: 'a', found: true },
      { job_name: 'bad', found: false },
      { job_name: 'c', found: true },
    ]);
    expect(handed.filter((ticket) => ticket.startsWith('bad'))).toEqual(['bad 0']);
    expect(refused).toEqual(['hand over bad: not this page']);
  });
});
