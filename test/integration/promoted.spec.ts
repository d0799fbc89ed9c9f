import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { CronRun, DistributedCron, LeaseLostError, SchedulerEvents, type SchedulerEvent } from '../../lib/index.js';
import { eventually } from '../cluster/harness/eventually.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { Wire } from '../support/wire.js';
import { closeApps, nextEvent, nextRun, startApp } from './support/apps.js';

let database: TestDatabase;
let wire: Wire;
let heard: SchedulerEvent[];

beforeEach(async () => {
  database = await createTestDatabase();
  wire = await Wire.to(database.url);
  heard = [];
});
afterEach(async () => {
  wire.mend();
  await closeApps();
  wire.end();
  await database.drop();
});

/**
 * A standby takes over that had not been sent the last of what was committed: nobody tells, but that connections break.
 */
async function promoteWithout(lost: () => Promise<unknown>): Promise<void> {
  wire.cut();
  await database.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
  );
  await lost();
  wire.mend();
}

const rowOf = async (jobName: string, fireTime: Date) =>
  (
    await database.query<{ status: string; created_at: Date }>(
      'select status, created_at from job_runs where job_name = $1 and fire_time = $2',
      [jobName, fireTime],
    )
  )[0];

describe('a standby that was promoted without the last rows', () => {
  it('decides what has lost its row again: it runs as what is late, and nothing else runs twice', async () => {
    const calls: number[] = [];
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'job', overlap: 'allow' })
      job({ fireTime }: CronRun) {
        calls.push(fireTime.getTime());
      }
    }
    const app = await startApp({ ...database, url: wire.url }, { providers: [Jobs] });
    app.get(SchedulerEvents).subscribe((event) => heard.push(event));
    const kept = await nextRun(app, 'job');
    const [first, second] = [await nextRun(app, 'job'), await nextRun(app, 'job')];
    const vanished: number[] = [];
    await promoteWithout(async () => {
      const rows = await database.query<{ fire_time: Date }>(
        'delete from job_runs where fire_time >= $1 returning fire_time',
        [first.fireTime],
      );
      vanished.push(...rows.map(({ fire_time }) => fire_time.getTime()).sort());
    });
    expect(vanished).toEqual(expect.arrayContaining([first.fireTime.getTime(), second.fireTime.getTime()]));
    await eventually(
      'both are done again',
      async () =>
        (await rowOf('job', first.fireTime))?.status === 'done' &&
        (await rowOf('job', second.fireTime))?.status === 'done',
    );
    await nextRun(app, 'job');
    const twice = calls.filter((fireTime, index) => calls.indexOf(fireTime) !== index);
    expect(twice.every((fireTime) => vanished.includes(fireTime))).toBe(true);
    expect(calls.filter((fireTime) => fireTime === kept.fireTime.getTime())).toHaveLength(1);
    expect(heard.filter(({ type }) => type === 'job.rewound')).toMatchObject([
      { jobName: 'job', from: first.fireTime },
    ]);
  });

  it('has a run aborted that has lost its row, and run again, on the same instance, too', async () => {
    const reasons: unknown[] = [];
    @Injectable()
    class Jobs {
      @DistributedCron('* * * * * *', { name: 'long', lease: '3s', renewEvery: '300ms' })
      async long(run: CronRun) {
        if (reasons.length > 0) return;
        await promoteWithout(() => database.query('delete from job_runs'));
        await new Promise<void>((resolve) => run.signal.addEventListener('abort', () => resolve()));
        reasons.push(run.signal.reason);
      }
    }
    const app = await startApp({ ...database, url: wire.url }, { providers: [Jobs] });
    const { fireTime } = await nextEvent(app, 'run.claimed');
    await nextEvent(app, 'lease.lost');
    await nextEvent(
      app,
      'run.completed',
      (event) => event.fireTime.getTime() === fireTime.getTime() && event.attempt === 1,
    );
    expect(reasons[0]).toBeInstanceOf(LeaseLostError);
  });

  it('follows what was changed since, though the revision of the change has been handed out before', async () => {
    @Injectable()
    class Jobs {
      @DistributedCron('0 0 3 * * *', { name: 'nightly' })
      nightly() {}
    }
    const app = await startApp({ ...database, url: wire.url }, { providers: [Jobs] });
    await database.query(`update job_schedule set cron = '0 0 4 * * *', overridden_at = now(), revision = 7`);
    const scheduled = (words: string) => nextEvent(app, 'job.scheduled', ({ schedule }) => schedule.includes(words));
    await scheduled('0 0 4');
    const [follows] = [scheduled('0 0 5')];
    await promoteWithout(() => database.query(`update job_schedule set cron = '0 0 5 * * *', revision = 3`));
    expect(await follows).toMatchObject({ jobName: 'nightly' });
  });
});
