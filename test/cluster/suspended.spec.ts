import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster } from './harness/cluster.js';
import { EVERY_SECOND } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import { judgeSeconds, NOTHING_WRONG, secondsDone } from './harness/seconds.js';

const LATE_AFTER_MS = 2_000;
const FROZEN_MS = 8_000;
const MOST = 3;

describe('the only replica, suspended with nothing in hand and resumed', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('G9 treats the time in between as missed: each job by its policy, every second decided once, and then goes on', async () => {
    const policies = ['skip', 'once', 'all'] as const;
    const replica = await cluster.start('sleeper', {
      jobs: policies.map((missed) => ({
        name: missed,
        cron: EVERY_SECOND,
        missed,
        maxCatchUp: MOST,
        lateAfter: LATE_AFTER_MS,
        steps: [{ effect: 'done' }],
      })),
      // What is cut off by the freeze is nobody else's.
      scheduler: { defaults: { lease: '1m' } },
    });
    await Promise.all(policies.map((job) => secondsDone(cluster, job, 2)));

    replica.freeze();
    const frozenAt = await cluster.ledger.now();
    await eventually(
      'the freeze to last',
      async () => (await cluster.ledger.now()).getTime() - frozenAt.getTime() > FROZEN_MS,
    );
    const thawedAt = await cluster.ledger.now();
    replica.thaw();

    // Its claim of the second in which it was frozen may have been on the way.
    const missed = ({ fireTime }: { fireTime: Date }) =>
      fireTime.getTime() > frozenAt.getTime() + 1_000 && fireTime.getTime() <= thawedAt.getTime() - LATE_AFTER_MS;
    for (const job of policies) {
      const { fireTime } = await secondsDone(cluster, job, 2, thawedAt);
      expect(await judgeSeconds(cluster, job, fireTime)).toEqual(NOTHING_WRONG);
    }
    const catchUps = async (job: string) =>
      (await cluster.ledger.runs(job)).filter((run) => run.trigger === 'catch-up' && run.fireTime > frozenAt);
    await eventually('what was caught up to be done', async () =>
      (await Promise.all(policies.map(catchUps)))
        .flat()
        .every(({ status }) => status !== 'queued' && status !== 'running'),
    );

    expect((await cluster.ledger.effects('skip')).filter(missed)).toEqual([]);
    for (const [job, most] of [
      ['once', 1],
      ['all', MOST],
    ] as const) {
      // A machine that is busy when it resumes may have missed a second more: the newest are those that are run.
      const caughtUp = (await catchUps(job)).filter(({ status }) => status === 'done');
      expect(caughtUp.length).toBeGreaterThanOrEqual(most);
      expect((await cluster.ledger.effects(job)).filter(missed).length).toBeLessThanOrEqual(most);
    }
    const gaps = (await catchUps('skip')).filter(({ gapFrom }) => gapFrom !== null);
    expect(gaps[0]).toMatchObject({ status: 'skipped', reason: 'missed: skipped' });
    expect(gaps[0]!.gapFrom!.getTime()).toBeLessThanOrEqual(frozenAt.getTime() + 2_000);
  });
});
