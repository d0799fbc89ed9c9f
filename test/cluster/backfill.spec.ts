import { Injectable } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DistributedCron, SchedulerService } from '../../lib/index.js';
import { closeApps, startApp } from '../integration/support/apps.js';
import { Cluster } from './harness/cluster.js';
import { EVERY_SECOND } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import type { RunRow } from './harness/ledger.js';
import type { ReplicaJob, Step } from './replica/settings.js';

const HOUR = 3_600_000;
const OCCURRENCES = 30;
const AT_A_TIME = 2;

describe('a backfill by two replicas', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(async () => {
    await closeApps();
    await cluster.end();
  });

  it('G4 G6 one of which is killed in the middle does every occurrence once, and delays no live one of another job', async () => {
    // Half an hour away on both sides: nothing of it comes due meanwhile.
    const now = await cluster.ledger.now();
    const minute = (now.getUTCMinutes() + 30) % 60;
    const last = new Date(Math.floor((now.getTime() - minute * 60_000) / HOUR) * HOUR + minute * 60_000);
    const cron = `${minute} * * * *`;
    const jobs = (steps: readonly Step[]): ReplicaJob[] => [
      { name: 'history', cron, steps },
      { name: 'punctual', cron: EVERY_SECOND, steps: [] },
    ];

    @Injectable()
    class History {
      @DistributedCron(cron, { name: 'history', overlap: 'allow' })
      run() {}
    }
    const asking = await startApp(cluster.database, { providers: [History] }, { enabled: false });
    const victim = await cluster.start('victim', {
      jobs: jobs([{ receipt: 'a' }, { gate: 'here' }, { receipt: 'b' }]),
    });
    const scheduler = asking.get(SchedulerService);
    const plan = await scheduler.backfill('history', new Date(last.getTime() - (OCCURRENCES - 1) * HOUR), last, {
      maxConcurrent: AT_A_TIME,
    });
    expect(plan).toMatchObject({ occurrences: OCCURRENCES, willRun: OCCURRENCES });

    // Each one that it lets go on is followed by another; then it stands in the middle of as many as may run at a time.
    const passed = await victim.atGate('here', { jobName: 'history' });
    victim.open('here', passed);
    await victim.event('run.completed', { jobName: 'history', fireTime: passed.fireTime });
    const abandoned = await eventually('two runs of the victim', async () => {
      const running = (await cluster.ledger.runs('history')).filter(
        ({ status, claimedBy }) => status === 'running' && claimedBy === victim.instanceId,
      );
      return running.length === AT_A_TIME && running;
    });
    await Promise.all(abandoned.map(({ fireTime }) => victim.atGate('here', { jobName: 'history', fireTime })));
    const heir = await cluster.start('heir', { jobs: jobs([{ receipt: 'a' }, { pauseMs: 20 }, { receipt: 'b' }]) });
    await victim.kill();

    const finished = await heir.event('backfill.finished');
    expect(finished).toMatchObject({
      id: plan.id,
      jobName: 'history',
      total: OCCURRENCES,
      done: OCCURRENCES,
      dead: 0,
      leftAlone: 0,
    });
    const runs = await cluster.ledger.runs('history');
    expect(runs).toHaveLength(OCCURRENCES);
    expect(new Set(runs.map(({ status }) => status))).toEqual(new Set(['done']));
    for (const before of abandoned) {
      const run = await cluster.ledger.run(before);
      expect(run).toMatchObject({ attempt: 2, claimedBy: heir.instanceId });
      expect(run.startedAt!.getTime()).toBeGreaterThanOrEqual(before.leaseUntil!.getTime());
    }
    for (const run of runs)
      expect((await cluster.ledger.effects('history', run.fireTime)).map(({ entity }) => entity)).toEqual(['a', 'b']);
    expect(mostAtOnce(runs)).toBeLessThanOrEqual(AT_A_TIME);

    const until = await cluster.ledger.now();
    const punctual = await eventually(
      'every live occurrence until then to be done',
      async () => {
        const due = (await cluster.ledger.runs('punctual')).filter(({ fireTime }) => fireTime < until);
        return (
          due.at(-1)!.fireTime.getTime() >= until.getTime() - 1_000 &&
          due.every(({ status }) => status === 'done') &&
          due
        );
      },
      { seen: () => cluster.ledger.runs('punctual') },
    );
    expect(new Set(punctual.map(({ trigger }) => trigger))).toEqual(new Set(['schedule']));
    const seconds = punctual.map(({ fireTime }) => fireTime.getTime() / 1_000);
    expect(seconds).toEqual(seconds.map((_, index) => seconds[0]! + index));
    expect(await cluster.ledger.deadlocks()).toBe(0);
  });

  it('G8 of a job that forbids overlap fits between its live occurrences, of which none is skipped and none runs beside another run', async () => {
    const careful: ReplicaJob = {
      name: 'careful',
      cron: '*/3 * * * * *',
      overlap: 'forbid',
      steps: [{ effect: 'begun' }, { pauseMs: 200 }, { effect: 'ended' }],
    };

    @Injectable()
    class Careful {
      @DistributedCron(careful.cron, { name: careful.name, overlap: 'forbid' })
      run() {}
    }
    const asking = await startApp(cluster.database, { providers: [Careful] }, { enabled: false });
    const [one, other] = await cluster.startAll(['one', 'other'], { jobs: [careful] });
    const before = await cluster.ledger.now();
    const from = new Date(Math.floor(before.getTime() / 60_000) * 60_000 - 120_000);
    const plan = await asking.get(SchedulerService).backfill('careful', from, new Date(from.getTime() + 27_000));
    expect(plan).toMatchObject({ willRun: 10, overlap: 'forbid' });
    await Promise.any([one, other].map((replica) => replica!.event('backfill.finished')));

    const runs = await cluster.ledger.runs('careful');
    expect(
      runs.filter(({ trigger, status, attempt }) => trigger === 'backfill' && status === 'done' && attempt === 1),
    ).toHaveLength(10);
    const ended = await cluster.ledger.now();
    const live = await eventually('the live occurrences until then to be done', async () => {
      const due = (await cluster.ledger.runs('careful')).filter(
        ({ fireTime, trigger }) => trigger !== 'backfill' && fireTime <= ended,
      );
      return due.every(({ status }) => status === 'done' || status === 'skipped') && due;
    });
    expect(live.length).toBeGreaterThan(0);
    expect(live.map(({ status, reason, trigger }) => ({ status, reason, trigger }))).toEqual(
      live.map(() => ({ status: 'done', reason: null, trigger: 'schedule' })),
    );
    const effects = (await cluster.ledger.effects('careful')).map(({ entity }) => entity);
    expect(effects).toEqual(effects.map((_, index) => (index % 2 === 0 ? 'begun' : 'ended')));
  });
});

/** How many of the runs went on at one instant. A run that was taken over counts from its last attempt's start. */
function mostAtOnce(runs: readonly RunRow[]): number {
  return Math.max(
    ...runs.map(
      ({ startedAt }) =>
        runs.filter((other) => other.startedAt! <= startedAt! && startedAt! < other.finishedAt!).length,
    ),
  );
}
