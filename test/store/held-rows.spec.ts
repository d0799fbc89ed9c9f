import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { JobRunRepository } from '../../lib/runs/job-run.repository.js';
import { ReapingRepository } from '../../lib/runs/reaping.repository.js';
import { planCatchUp } from '../../lib/catch-up/catch-up.js';
import { aDue } from '../support/due.js';
import { aJob } from '../support/job.js';
import { openStores, secondsAgo, type Stores } from '../support/stores.js';

let stores: Stores;
let application: pg.Client;
beforeAll(async () => {
  stores = await openStores();
  application = new pg.Client({ connectionString: stores.test.url });
  await application.connect();
});
afterAll(async () => {
  await application.end();
  await stores.close();
});
beforeEach(async () => {
  for (const table of ['job_runs', 'job_schedule']) await stores.test.query(`delete from ${table}`);
});

/**
 * A transaction of the application's that has changed the run, and is not at its end: its process is busy, or frozen.
 */
async function holding(jobName: string, work: () => Promise<void>): Promise<void> {
  await application.query('begin');
  await application.query(`update job_runs set checkpoint = '1' where job_name = $1`, [jobName]);
  await work();
  await application.query('commit');
}

const replacing = (seconds: number) => aDue('replacing', secondsAgo(seconds), { overlap: 'replace' });
const verdicts = async (...due: Parameters<typeof stores.claims.claimDue>[0]) =>
  (await stores.claims.claimDue(due, 'A')).answers.map(({ verdict }) => verdict);

describe('a run whose row an open transaction of the application holds', () => {
  it('keeps a newer one of the same job waiting that would replace it, and no other job of the batch', async () => {
    expect(await verdicts(replacing(50))).toEqual(['claimed']);
    await holding('replacing', async () => {
      expect(await verdicts(aDue('another', secondsAgo(40)), replacing(40))).toEqual(['claimed', 'waiting']);
    });
    // The ticker tries again what waits.
    expect(await verdicts(replacing(40))).toEqual(['queued']);
    expect(
      await stores.test.query(
        `select status, cancel_reason from job_runs where job_name = 'replacing' order by fire_time`,
      ),
    ).toEqual([
      { status: 'running', cancel_reason: 'replaced by a newer one' },
      { status: 'queued', cancel_reason: null },
    ]);
  });

  it('that waits keeps a newer one waiting, too, and is cancelled later', async () => {
    await verdicts(replacing(50));
    await stores.test.query(`update job_runs set status = 'failed', next_attempt_at = now()`);
    await holding('replacing', async () => {
      expect(await verdicts(aDue('another', secondsAgo(40)), replacing(40))).toEqual(['claimed', 'waiting']);
    });
    expect(await verdicts(replacing(40))).toEqual(['claimed']);
    expect(
      await stores.test.query(`select status from job_runs where job_name = 'replacing' order by fire_time`),
    ).toEqual([{ status: 'cancelled' }, { status: 'running' }]);
  });

  it('is passed over when it is to start, to be given up, or to be handed back; the others are not', async () => {
    const due = ['held', 'free'].map((name) => aDue(name, secondsAgo(50)));
    await stores.claims.claimDue(due, 'A', 3);
    const gone = new ReapingRepository(stores.database);
    await holding('held', async () => {
      expect(
        await gone.giveUp(
          due.map((one) => ({ ...one, attempt: 1 })),
          'A',
        ),
      ).toMatchObject([{ jobName: 'free' }]);
      expect(
        await stores.runs.handBack(
          due.map((one) => ({ ...one, attempt: 1, claim: 3 })),
          'A',
        ),
      ).toMatchObject([{ jobName: 'free' }]);
    });
    await stores.test.query(`update job_runs set status = 'queued', next_attempt_at = now() where status = 'running'`);
    await holding('held', async () => {
      const { answers } = await stores.claims.claimWaiting(
        due.map(({ jobName, fireTime }) => ({ jobName, fireTime, attempt: 1, overlap: 'forbid', leaseMs: 1_000 })),
        'B',
      );
      expect(answers).toMatchObject([{ jobName: 'free', attempt: 2 }]);
    });
  });
});

describe('a job whose row an open transaction holds, of the application or of a person', () => {
  const [HELD, FREE] = ['held', 'free'].map((name) => aJob(name, '* * * * * *'));
  const holdingJob = async (work: () => Promise<void>) => {
    await application.query('begin');
    await application.query(`update job_schedule set owner = 'them' where name = 'held'`);
    try {
      await work();
    } finally {
      await application.query('commit');
    }
  };
  beforeEach(async () => {
    await stores.test.query('delete from job_instances');
    await stores.schedules.declare([HELD!, FREE!], null);
    await stores.test.query(`update job_schedule set effective_from = $1, decided_until = $1`, [secondsAgo(100)]);
  });

  it('is caught up later: claims of it and of others do not wait for that', () =>
    holdingJob(async () => {
      const caughtUp = stores.catchUps.decide(HELD!, secondsAgo(100).getTime(), (seen) =>
        planCatchUp(HELD!, seen, seen.decided),
      );
      expect(await caughtUp).toBe('busy');
      const due = ['held', 'free'].map((name) =>
        aDue(name, secondsAgo(1), { cron: '* * * * * *', overlap: 'allow', parallel: null }),
      );
      const { answers } = await JobRunRepository.prototype.claimDue.call(stores.steps, due, 'A');
      expect(answers.map(({ verdict }) => verdict)).toEqual(['claimed', 'claimed']);
    }));

  it('is taken over later, and those that were to be taken over with it are taken over now', () => {
    const later = ['held', 'free'].map((name) => aJob(name, '*/5 * * * * *'));
    return holdingJob(async () => {
      await expect(stores.takeOvers.takeOver(later, 'new')).rejects.toMatchObject({ code: 'changed-meanwhile' });
      expect(await stores.test.query('select name, cron from job_schedule order by name')).toEqual([
        { name: 'free', cron: '*/5 * * * * *' },
        { name: 'held', cron: '* * * * * *' },
      ]);
    }).then(async () => expect(await stores.takeOvers.takeOver(later, 'new')).toMatchObject([{ name: 'held' }]));
  });

  it('keeps a process that starts waiting for a while only: it gives up, and others can start', () =>
    holdingJob(async () => {
      await expect(stores.schedules.declare([HELD!], null)).rejects.toMatchObject({ code: '55P03' });
      expect(await stores.schedules.declare([FREE!], null)).toMatchObject({ jobs: [{ name: 'free' }] });
    }));
});

it('a backfill whose row an open transaction holds is fed later, and its pass goes on to others', async () => {
  const job = aJob('fed', '* * * * * *');
  await stores.schedules.declare([job], null);
  const id = await stores.backfills.create({
    jobName: 'fed',
    from: secondsAgo(100),
    to: secondsAgo(90),
    maxConcurrent: 1,
    beside: true,
    replay: false,
    total: 1,
    requestedBy: null,
    reason: null,
  });
  await application.query('begin');
  await application.query('select from job_backfills for update');
  expect(await stores.feeds.feed(id, job)).toBeNull();
  await application.query('commit');
  expect(await stores.feeds.feed(id, job)).toMatchObject({ queued: [expect.any(Date)] });
});
