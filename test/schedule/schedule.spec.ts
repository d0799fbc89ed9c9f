import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { type CronRun, JobRegistry, SchedulerService } from '../../lib/index.js';
import {
  Cron,
  CronExpression,
  Interval,
  ScheduleModule,
  SchedulerRegistry,
  Timeout,
} from '../../lib/schedule/index.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { until } from '../support/until.js';

let database: TestDatabase;
const apps: { close(): Promise<void> }[] = [];
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
  await database.drop();
});
afterAll(() => Promise.all(apps.map((app) => app.close())));

async function start(provider: new () => object, options: object = {}) {
  const testing = await Test.createTestingModule({
    imports: [
      ScheduleModule.forRoot({
        connection: database.url,
        migrate: true,
        logging: false,
        pollInterval: '100ms',
        deployment: 'v1',
        ...options,
      }),
    ],
    providers: [provider],
  }).compile();
  const app = testing.createNestApplication();
  apps.push(app);
  return app.init();
}

const runs = () =>
  database.query<{ job_name: string; fire_time: Date; status: string; attempt: number }>(
    'select job_name, fire_time, status, attempt from job_runs order by fire_time, job_name',
  );

describe('@Cron, @Interval and @Timeout as @nestjs/schedule has them', () => {
  it('run once per occurrence over two replicas, with one attempt', async () => {
    const started: CronRun[] = [];
    @Injectable()
    class Tasks {
      @Cron(CronExpression.EVERY_SECOND)
      tick(run: CronRun): void {
        started.push(run);
      }

      @Cron('* * * * * *', { name: 'broken' })
      fail(): void {
        throw new Error('no');
      }

      @Interval('beat', 2_000)
      beat(run: CronRun): void {
        started.push(run);
      }
    }
    await Promise.all([start(Tasks), start(Tasks)]);
    await until(() => expect(started.filter(({ jobName }) => jobName === 'beat').length).toBeGreaterThan(1));
    const keys = started.map(({ jobName, fireTime }) => `${jobName} ${fireTime.toISOString()}`);
    expect(new Set(keys).size).toBe(keys.length);
    for (const run of await runs()) {
      if (run.job_name === 'broken' && run.status !== 'running')
        expect(run).toMatchObject({ status: 'dead', attempt: 1 });
      if (run.job_name === 'beat') expect(run.fire_time.getTime() % 2_000).toBe(0);
    }
    expect(started.map(({ jobName }) => jobName)).toContain('Tasks.tick');
  });

  it('run a timeout once per deployment, however many replicas and restarts there are', async () => {
    const started: string[] = [];
    @Injectable()
    class Tasks {
      @Timeout(100)
      warmUp(): void {
        started.push('warm-up');
      }

      @Timeout('greet', 2_000)
      greet(): void {
        started.push('greet');
      }
    }
    const [one] = await Promise.all([start(Tasks), start(Tasks)]);
    await until(() => expect(started.sort()).toEqual(['greet', 'warm-up']));
    await one.close();
    const restarted = await start(Tasks);
    const registry = restarted.get(SchedulerRegistry);
    expect(registry.getTimeouts().sort()).toEqual(['Tasks.warmUp (v1)', 'greet (v1)']);
    expect(registry.doesExist('timeout', 'greet')).toBe(true);
    expect(registry.doesExist('timeout', 'gree')).toBe(false);
    await registry.deleteTimeout('greet (v1)');
    await start(Tasks);
    await start(Tasks, { deployment: 'v2' });
    await until(() => expect(started.sort()).toEqual(['greet', 'greet', 'warm-up', 'warm-up']));
    // Neither the restart nor what came after it has run one of them again.
    expect((await runs()).map(({ job_name, status }) => [job_name, status]).sort()).toEqual([
      ['Tasks.warmUp (v1)', 'done'],
      ['Tasks.warmUp (v2)', 'done'],
      ['greet (v1)', 'done'],
      ['greet (v2)', 'done'],
    ]);
  });

  it('take a date for one occurrence, and start again after it', async () => {
    const started: Date[] = [];
    const at = new Date(Date.now() + 4_000);
    @Injectable()
    class Tasks {
      @Cron(at)
      once(run: CronRun): void {
        started.push(run.fireTime);
      }

      @Cron(new Date(0))
      long_ago(): void {
        started.push(new Date(0));
      }
    }
    const app = await start(Tasks);
    await until(() => expect(started).toEqual([new Date(Math.ceil(at.getTime() / 1_000) * 1_000)]));
    await app.close();
    await start(Tasks);
    expect(started).toHaveLength(1);
  });

  it('run beside each other, unless they wait for completion', async () => {
    let beside = 0;
    const most = { beside: 0, alone: 0 };
    let alone = 0;
    @Injectable()
    class Tasks {
      @Cron('* * * * * *')
      async beside(): Promise<void> {
        most.beside = Math.max(most.beside, ++beside);
        await new Promise((resolve) => setTimeout(resolve, 1_500));
        beside--;
      }

      @Cron('* * * * * *', { waitForCompletion: true })
      async alone(): Promise<void> {
        most.alone = Math.max(most.alone, ++alone);
        await new Promise((resolve) => setTimeout(resolve, 1_500));
        alone--;
      }
    }
    await start(Tasks);
    await until(() => expect(most.beside).toBeGreaterThan(1));
    await until(async () => expect((await runs()).some(({ status }) => status === 'skipped')).toBe(true));
    expect(most.alone).toBe(1);
  });

  it('leave out what is disabled, and are in the zone of the process, in another, or at an offset', async () => {
    @Injectable()
    class Tasks {
      @Cron('0 3 * * *', { disabled: true })
      off(): void {}

      @Cron('0 3 * * *')
      local(): void {}

      @Cron('0 3 * * *', { timeZone: 'Europe/Berlin' })
      berlin(): void {}

      @Cron('0 3 * * *', { utcOffset: '+02:00' })
      offset(): void {}

      @Cron('0 3 * * *', { utcOffset: -300, threshold: 500 })
      west(): void {}
    }
    const app = await start(Tasks);
    const jobs = await app.get(SchedulerService).inventory();
    expect(jobs.map(({ name, timeZone, missed, overlap }) => [name, timeZone, missed, overlap])).toEqual([
      ['Tasks.berlin', 'Europe/Berlin', 'skip', 'allow'],
      ['Tasks.local', Intl.DateTimeFormat().resolvedOptions().timeZone, 'skip', 'allow'],
      ['Tasks.offset', 'Etc/GMT-2', 'skip', 'allow'],
      ['Tasks.west', 'Etc/GMT+5', 'skip', 'allow'],
    ]);
    expect(app.get(JobRegistry).get('Tasks.west')?.definition.lateAfterMs).toBe(1_000);
  });
});

describe('SchedulerRegistry', () => {
  it('names jobs, and says what to do instead of what one process can’t do for all', async () => {
    @Injectable()
    class Tasks {
      @Cron('0 3 * * *', { name: 'nightly', timeZone: 'UTC' })
      nightly(): void {}

      @Interval('beat', 90_000)
      beat(): void {}
    }
    const app = await start(Tasks);
    const registry = app.get(SchedulerRegistry);
    expect(registry.doesExist('cron', 'nightly')).toBe(true);
    expect(registry.doesExist('interval', 'nightly')).toBe(false);
    expect(registry.getIntervals()).toEqual(['beat']);
    expect([...registry.getCronJobs().keys()]).toEqual(['nightly']);
    const job = registry.getCronJob('nightly');
    expect(job).toMatchObject({ name: 'nightly', cronTime: { source: '0 3 * * *', timeZone: 'UTC' } });
    expect(job.nextDates(2).map((date) => date.getUTCHours())).toEqual([3, 3]);
    expect(job.nextDate()).toEqual(job.nextDates(1)[0]);
    expect(() => (job as unknown as { stop(): void }).stop()).toThrow('SchedulerService.pause');
    // @ts-expect-error a replica can't stop what runs on all of them
    expect(() => job.stop()).toThrow('SchedulerService.pause');
    expect(() => registry.getCronJob('nigthly')).toThrow(
      'There is no cron job "nigthly" on this instance; there are nightly.',
    );
    expect(() => registry.getInterval('beat')).toThrow('SchedulerService.nextFireTimes');
    expect(() => registry.addCronJob('x')).toThrow('JobRegistry.add');
    expect(() => registry.addInterval('x')).toThrow('JobRegistry.add');
    expect(() => registry.addTimeout('x')).toThrow('JobRegistry.add');
    await expect(registry.deleteCronJob('nightly')).rejects.toThrow('declared by code');
  });
});

describe('what can’t mean the same is refused by name', () => {
  const decorate = (decorator: MethodDecorator) => () => {
    class Tasks {
      run(): void {}
    }
    decorator(Tasks.prototype, 'run', Object.getOwnPropertyDescriptor(Tasks.prototype, 'run')!);
  };

  it.each<[string, MethodDecorator, string]>([
    ['unrefTimeout', Cron('* * * * *', { unrefTimeout: true as never }), '@Cron on Tasks.run: unrefTimeout'],
    ['initialDelay', Cron('* * * * *', { initialDelay: 5 } as never), 'initialDelay'],
    ['a misspelt option', Cron('* * * * *', { timezone: 'UTC' } as never), 'did you mean "timeZone"'],
    ['an empty offset', Cron('* * * * *', { utcOffset: '' }), 'utcOffset'],
    ['an offset of sixty minutes', Cron('* * * * *', { utcOffset: '+01:60' }), 'utcOffset'],
    ['two zones', Cron('* * * * *', { timeZone: 'UTC', utcOffset: 0 }), 'give one of them'],
    ['an offset of part of an hour', Cron('* * * * *', { utcOffset: '+05:30' }), 'IANA name of the region'],
    ['a threshold', Cron('* * * * *', { threshold: -1 }), 'threshold'],
    ['no date', Cron(new Date(NaN)), 'invalid Date'],
    ['an interval below a second', Interval(500), 'setInterval'],
    ['an interval with a part of a second', Interval('x', 1_500), 'whole seconds'],
    ['a timeout without a number', Timeout('x' as never), 'expected milliseconds'],
  ])('%s', (_, decorator, problem) => expect(decorate(decorator)).toThrow(problem));

  it.each(['cronJobs', 'intervals', 'timeouts'])('%s', (name) =>
    expect(() => ScheduleModule.forRoot({ [name]: false } as never)).toThrow('enabled: false'),
  );

  it('a deployment without a name', () =>
    expect(() => ScheduleModule.forRoot({ deployment: '' })).toThrow('deployment'));
});
