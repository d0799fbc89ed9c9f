import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import {
  DistributedCron,
  DistributedCronHandler,
  JobRegistry,
  SchedulerService,
  type CronRun,
  type DistributedCronOptions,
  type DistributedSchedulerOptions,
} from '../../lib/index.js';
import { INSTANCE_ID } from '../../lib/options/tokens.js';
import { WakeUps } from '../../lib/observe/wake-ups.js';
import { ReaperService } from '../../lib/runs/reaper.service.js';
import { ScheduleFollower } from '../../lib/jobs/schedule-follower.service.js';
import { ClaimOrder } from '../../lib/runs/claim-order.js';
import { runCommand } from '../../lib/cli/run-command.js';
import { wakeUpChannel } from '../../lib/database/tables.js';
import { eventually } from '../cluster/harness/eventually.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { closeApps, nextEvent, nextRun, startApp } from './support/apps.js';

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  await closeApps();
  await database.drop();
});

const OPS = { by: 'ops', reason: 'because' };
const NEVER_DUE = '0 3 29 2 *';

/** Nothing is found by a poll in the time that a test has: whatever happens elsewhere was heard. */
const DEAF_TO_POLLS: DistributedSchedulerOptions = { pollInterval: '1h' };

/** @param untilAborted its handler ends when it is told to */
function replica(
  {
    cron = NEVER_DUE,
    untilAborted = false,
    ...options
  }: DistributedCronOptions & { cron?: string; untilAborted?: boolean } = {},
  scheduler: DistributedSchedulerOptions = {},
): Promise<TestingModule> {
  @Injectable()
  class Jobs {
    @DistributedCron(cron, { name: 'export', ...options })
    async export(run: CronRun) {
      if (untilAborted && !run.signal.aborted) await once(run.signal, 'abort');
    }

    @DistributedCronHandler('report')
    report() {}
  }
  return startApp(database, { providers: [Jobs] }, { ...DEAF_TO_POLLS, ...scheduler });
}

/** An operator's process, which runs nothing itself. */
const operator = async () => (await replica({}, { enabled: false })).get(SchedulerService);

/** A run that waits since a minute ago, or is dead. */
async function aRun(status: 'queued' | 'dead'): Promise<Date> {
  const fireTime = new Date(Math.floor(Date.now() / 1_000) * 1_000 - 60_000);
  const first = status === 'dead' ? 'running' : status;
  await database.query(
    `insert into job_runs (job_name, fire_time, status, trigger, attempt, claimed_by, started_at, lease_until, next_attempt_at)
     values ('export', $1, $2, 'schedule', 1, 'gone', now(), now() + interval '1 hour', case when $2 = 'queued' then now() end)`,
    [fireTime, first],
  );
  if (status !== first)
    await database.query('update job_runs set status = $1 where fire_time = $2', [status, fireTime]);
  return fireTime;
}

describe('what is done on one instance is seen at once on another', () => {
  it('that it is there, and that it goes', async () => {
    const first = await replica();
    const heard = jest.spyOn(first.get(ClaimOrder, { strict: false }), 'hear');
    const company = (size: number) =>
      eventually(`a company of ${size}`, async () => heard.mock.lastCall?.[0].length === size);
    const second = await replica();
    await company(2);
    await second.close();
    await company(1);
  });

  it('that it is there, which is of no concern to whoever declares other jobs: what those run is left to nobody', async () => {
    const first = await replica({ name: 'import' });
    const heard = jest.spyOn(first.get(ClaimOrder, { strict: false }), 'hear');
    const second = await replica();
    await eventually('a look', async () => heard.mock.calls.length > 0);
    expect(heard.mock.lastCall?.[0]).toEqual([first.get(INSTANCE_ID, { strict: false })]);
    await second.close();
  });

  it('a run that somebody asks for', async () => {
    const app = await replica();
    const ran = nextRun(app, 'export');
    const { fireTime } = await (await operator()).runNow('export', OPS);
    expect(await ran).toMatchObject({ fireTime, attempt: 1 });
  });

  it.each<[where: string, deliver: (fireTime: Date) => Promise<unknown>]>([
    [
      'by an instance that runs nothing',
      async (fireTime) =>
        (await replica({ cron: '* * * * * *', trigger: 'external' }, { enabled: false }))
          .get(SchedulerService)
          .deliver('export', { fireTime }),
    ],
    [
      'on the command line',
      (fireTime) =>
        runCommand(['trigger', 'export', '--fire-time', fireTime.toISOString()], {
          env: { DATABASE_URL: database.url },
          say: () => {},
          complain: (text) => process.stderr.write(text),
        }),
    ],
  ])('an occurrence that is delivered %s', async (_where, deliver) => {
    const app = await replica({ cron: '* * * * * *', trigger: 'external' });
    const ran = nextRun(app, 'export');
    const fireTime = new Date(Math.ceil(Date.now() / 1_000) * 1_000);
    await deliver(fireTime);
    expect(await ran).toMatchObject({ fireTime, attempt: 1 });
  });

  it('a replay', async () => {
    const app = await replica();
    const verbs = await operator();
    const fireTime = await aRun('dead');
    const replayed = nextRun(app, 'export');
    await verbs.replay('export', fireTime, OPS);
    expect(await replayed).toMatchObject({ fireTime, attempt: 2 });
  });

  it('a replay of many', async () => {
    const app = await replica();
    const verbs = await operator();
    const fireTime = await aRun('dead');
    const replayed = nextRun(app, 'export');
    await verbs.replayAll({}, OPS);
    expect(await replayed).toMatchObject({ fireTime, attempt: 2 });
  });

  it('a resumed job, whose runs waited', async () => {
    const app = await replica();
    const verbs = await operator();
    await verbs.pause('export', OPS);
    await aRun('queued');
    const ran = nextRun(app, 'export');
    await verbs.resume('export', OPS);
    expect(await ran).toMatchObject({ attempt: 2 });
  });

  it('an enabled job, whose runs waited', async () => {
    const app = await replica();
    const verbs = await operator();
    await verbs.disable('export', OPS);
    await aRun('queued');
    const ran = nextRun(app, 'export');
    await verbs.enable('export', OPS);
    expect(await ran).toMatchObject({ attempt: 2 });
  });

  it('a flag: turned on, what waited starts; turned off, what runs is told to stop', async () => {
    const app = await replica({ flag: 'exports', flagOff: 'cancel', untilAborted: true });
    const verbs = await operator();
    await verbs.setFlag('exports', false, OPS);
    await aRun('queued');
    const started = nextEvent(app, 'run.started');
    await verbs.setFlag('exports', true, OPS);
    await started;
    const cancelled = nextEvent(app, 'run.cancelled');
    await verbs.setFlag('exports', false, OPS);
    expect(await cancelled).toMatchObject({ reason: 'flag off: exports' });
  });

  it('a cancel', async () => {
    const app = await replica({ untilAborted: true });
    const verbs = await operator();
    const started = nextEvent(app, 'run.started');
    const { fireTime } = await verbs.runNow('export', OPS);
    await started;
    const cancelled = nextEvent(app, 'run.cancelled');
    expect(await verbs.cancel('export', fireTime, OPS)).toBe('requested');
    expect(await cancelled).toMatchObject({ fireTime, reason: 'cancelled by ops: because' });
  });

  it('a newer occurrence, that replaces the one under way', async () => {
    const app = await replica({ cron: '* * * * * *', overlap: 'replace', untilAborted: true });
    expect(await nextEvent(app, 'run.cancelled')).toMatchObject({ reason: 'replaced by a newer one' });
  });

  it('another schedule, and the end of it', async () => {
    const app = await replica();
    const verbs = await operator();
    const overridden = nextEvent(app, 'job.scheduled');
    await verbs.override('export', { cron: '0 4 29 2 *' }, OPS);
    expect(await overridden).toMatchObject({ schedule: '"0 4 29 2 *" (UTC)' });
    const cleared = nextEvent(app, 'job.scheduled', ({ schedule }) => schedule === '"0 3 29 2 *" (UTC)');
    await verbs.clearOverride('export', OPS);
    await cleared;
  });

  it('a job that is made, changed and removed while it runs', async () => {
    const app = await replica();
    const registry = (await replica({}, { enabled: false })).get(JobRegistry);
    const made = nextEvent(app, 'job.scheduled', ({ jobName }) => jobName === 'mine');
    await registry.add({ name: 'mine', handler: 'report', cron: NEVER_DUE });
    await made;
    const changed = nextEvent(app, 'job.scheduled', ({ jobName }) => jobName === 'mine');
    await registry.update('mine', { cron: '0 4 29 2 *' });
    await changed;
    const removed = nextEvent(app, 'job.unscheduled', ({ jobName }) => jobName === 'mine');
    await registry.remove('mine');
    await removed;
  });

  it('a backfill', async () => {
    const app = await replica({ cron: '0 0 1 1 *' });
    const lastYear = new Date(Date.UTC(new Date().getUTCFullYear() - 1, 0, 1));
    const ran = nextEvent(app, 'run.completed', ({ fireTime }) => fireTime.getTime() === lastYear.getTime());
    await (await replica({ cron: '0 0 1 1 *' }, { enabled: false }))
      .get(SchedulerService)
      .backfill('export', lastYear, lastYear, OPS);
    expect(await ran).toMatchObject({ fireTime: lastYear });
  });
});

describe('an instance that can not be woken up any more', () => {
  it('does not sleep on as long as if it could: it looks at the next poll', async () => {
    const first = await replica();
    const [reaper, follower] = [
      first.get(ReaperService, { strict: false }),
      first.get(ScheduleFollower, { strict: false }),
    ];
    await eventually('it is heard', async () => first.get(WakeUps, { strict: false }).areHeard);
    const looks = [jest.spyOn(reaper, 'lookAtNextPoll'), jest.spyOn(follower, 'lookAtNextPoll')];
    for (const look of looks) look.mockClear();
    await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'nestjs-distributed-cron heartbeat'`,
    );
    await eventually('it knows', async () => looks.every(({ mock }) => mock.calls.length > 0));
  });
});

describe('the path of an occurrence', () => {
  it('notifies nobody, however it ends: commits that do wait for each other', async () => {
    const listener = new pg.Client({ connectionString: database.url });
    await listener.connect();
    try {
      const heard: (string | undefined)[] = [];
      listener.on('notification', ({ payload }) => heard.push(payload));
      @Injectable()
      class Jobs {
        @DistributedCron('* * * * * *', { name: 'fails', lease: '1s', renewEvery: '100ms', maxAttempts: 2, backoff: 0 })
        async fails() {
          await sleep(300);
          throw new Error('no');
        }

        @DistributedCron('* * * * * *', { name: 'succeeds', overlap: 'replace' })
        succeeds() {}
      }
      const app = await startApp(database, { providers: [Jobs] });
      // Its start does: that it is there.
      await listener.query(`listen ${wakeUpChannel('public')}`);
      await Promise.all([nextEvent(app, 'run.failed'), nextEvent(app, 'run.dead'), nextRun(app, 'succeeds')]);
      await nextRun(app, 'succeeds');
      // What was sent before this has come before it.
      await listener.query(`select pg_notify('${wakeUpChannel('public')}', 'last')`);
      await eventually('the last notification', async () => heard.includes('last'));
      expect(heard).toEqual(['last']);
    } finally {
      await listener.end();
    }
  });
});
