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

describe('a backfill by two replicas, one of which is killed in the middle', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(async () => {
    await closeApps();
    await cluster.end();
  });

  it('G4 G6 does every occurrence once, a few at a time, and delays no live occurrence of another job', async () => {
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
    const victim = await cluster.start('victim', { jobs: jobs([{ receipt: 'a' }, { gate: 'here' }, { receipt: 'b' }]) });
    const scheduler = asking.get(SchedulerService);
    const plan = await scheduler.backfill('history', new Date(last.getTime() - (OCCURRENCES - 1) * HOUR), last, { maxConcurrent: AT_A_TIME });
    expect(plan).toMatchObject({ occurrences: OCCURRENCES, willRun: OCCURRENCES });

    // Each one that it lets go on is followed by another; then it stands in the middle of as many as may run at a time.
    const passed = await victim.atGate('here', { jobName: 'history' });
    victim.open('here', passed);
    await victim.event('run.completed', { jobName: 'history', fireTime: passed.fireTime });
    const abandoned = await eventually('two runs of the victim', async () => {
      const running = (await cluster.ledger.runs('history')).filter(({ status, claimedBy }) => status === 'running' && claimedBy === victim.instanceId);
      return running.length === AT_A_TIME && running;
    });
    await Promise.all(abandoned.map(({ fireTime }) => victim.atGate('here', { jobName: 'history', fireTime })));
    const heir = await cluster.start('heir', { jobs: jobs([{ receipt: 'a' }, { pauseMs: 20 }, { receipt: 'b' }]) });
    await victim.kill();

    const finished = await heir.event('backfill.finished');
    expect(finished).toMatchObject({ id: plan.id, jobName: 'history', total: OCCURRENCES, done: OCCURRENCES, dead: 0, leftAlone: 0 });
    const runs = await cluster.ledger.runs('history');
    expect(runs).toHaveLength(OCCURRENCES);
    expect(new Set(runs.map(({ status }) => status))).toEqual(new Set(['done']));
    for (const before of abandoned) {
      const run = await cluster.ledger.run(before);
      expect(run).toMatchObject({ attempt: 2, claimedBy: heir.instanceId });
      expect(run.startedAt!.getTime()).toBeGreaterThanOrEqual(before.leaseUntil!.getTime());
    }
    for (const run of runs) expect((await cluster.ledger.effects('history', run.fireTime)).map(({ entity }) => entity)).toEqual(['a', 'b']);
    expect(mostAtOnce(runs)).toBeLessThanOrEqual(AT_A_TIME);

    const until = await cluster.ledger.now();
    const punctual = await eventually(
      'every live occurrence until then to be done',
      async () => {
        const due = (await cluster.ledger.runs('punctual')).filter(({ fireTime }) => fireTime < until);
        return due.at(-1)!.fireTime.getTime() >= until.getTime() - 1_000 && due.every(({ status }) => status === 'done') && due;
      },
      { seen: () => cluster.ledger.runs('punctual') },
    );
    expect(new Set(punctual.map(({ trigger }) => trigger))).toEqual(new Set(['schedule']));
    const seconds = punctual.map(({ fireTime }) => fireTime.getTime() / 1_000);
    expect(seconds).toEqual(seconds.map((_, index) => seconds[0]! + index));
    expect(await cluster.ledger.deadlocks()).toBe(0);
  }, 90_000);
});

/** How many of the runs went on at one instant. A run that was taken over counts from its last attempt's start. */
function mostAtOnce(runs: readonly RunRow[]): number {
  return Math.max(...runs.map(({ startedAt }) => runs.filter((other) => other.startedAt! <= startedAt! && startedAt! < other.finishedAt!).length));
}
