import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster } from './harness/cluster.js';
import { EVERY_SECOND } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import type { ReplicaJob } from './replica/settings.js';

const POLICIES = ['forbid', 'queue', 'replace'] as const;

/** Each takes longer than a second, so that the next occurrence always finds it under way. */
const JOBS: ReplicaJob[] = POLICIES.map((overlap) => ({
  name: overlap,
  cron: EVERY_SECOND,
  overlap,
  ...(overlap === 'queue' && { queueLimit: 2 }),
  steps: [{ effect: 'begin' }, { pauseMs: 1_300 }, { effect: 'end' }],
}));

/** Three at most, of a job that would have five under way. */
const PARALLEL: ReplicaJob = {
  name: 'parallel',
  cron: EVERY_SECOND,
  overlap: 'allow',
  maxParallel: 3,
  steps: [{ effect: 'begin' }, { pauseMs: 4_500 }, { effect: 'end' }],
};

/** Four jobs of one group, of which two may be at work. */
const GROUPED: ReplicaJob[] = ['one', 'two', 'three', 'four'].map((name) => ({
  name: `grouped-${name}`,
  cron: EVERY_SECOND,
  overlap: 'allow',
  concurrencyGroup: { name: 'exports', limit: 2 },
  steps: [{ effect: 'begin' }, { pauseMs: 400 }, { effect: 'end' }],
}));

describe('G8 five replicas, and jobs that take longer than the time between their occurrences', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('at no time are there more at work than a job allows, and every occurrence is decided by its policy', async () => {
    const replicas = await cluster.startAll(['a', 'b', 'c', 'd', 'e'], {
      jobs: [...JOBS, PARALLEL, ...GROUPED],
      scheduler: { defaults: { lease: '30s' } },
    });
    await eventually('each job to have ended some times', async () => {
      const ends = await Promise.all(
        [...POLICIES, 'parallel', 'grouped-one', 'grouped-four'].map(
          async (job) => (await cluster.ledger.effects(job)).filter(({ entity }) => entity === 'end').length,
        ),
      );
      return ends.every((count) => count >= 5);
    });
    await Promise.all(replicas.map((replica) => replica.stop()));

    for (const job of POLICIES) expect([job, await mostAtWork(job)]).toEqual([job, 1]);
    expect(await mostAtWork('parallel')).toBe(3);
    expect(await mostAtWork(...GROUPED.map(({ name }) => name))).toBe(2);
    const decided = async (job: string) =>
      new Set((await cluster.ledger.runs(job)).map(({ status, reason }) => (status === 'skipped' ? reason : status)));
    expect([...(await decided('forbid'))].sort()).toEqual(['done', 'overlap']);
    expect(await decided('queue')).toContain('overlap: the queue is full');
    expect(await decided('replace')).toContain('cancelled');
    expect(await decided('parallel')).toContain('overlap');
    // In line means in the order of the fire times.
    const begun = (await cluster.ledger.effects('queue'))
      .filter(({ entity }) => entity === 'begin')
      .map(({ fireTime }) => fireTime.getTime());
    expect(begun).toEqual([...begun].sort((one, other) => one - other));
  });

  /** By what the handlers wrote, in the order in which the database saw it. */
  async function mostAtWork(...jobs: string[]): Promise<number> {
    let atWork = 0;
    let most = 0;
    const effects = (await Promise.all(jobs.map((job) => cluster.ledger.effects(job)))).flat();
    for (const { entity } of effects.sort(
      (one, other) => one.at.getTime() - other.at.getTime() || (one.entity < other.entity ? 1 : -1),
    )) {
      atWork += entity === 'begin' ? 1 : -1;
      most = Math.max(most, atWork);
    }
    return most;
  }
});
