import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster, POLL_MS, SLACK_MS } from './harness/cluster.js';
import { EVERY_SECOND } from './harness/crons.js';
import type { ReplicaJob, Step } from './replica/settings.js';

/** In a container every process has this id, and a restarted container keeps its host name. */
const believedPid = 1;

describe('replicas with the same host name and process id', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  const job = (steps: Step[]): ReplicaJob => ({ name: 'job', cron: EVERY_SECOND, overlap: 'forbid', steps });

  it('G3 three that start together are three instances', async () => {
    const replicas = await cluster.startAll(['one', 'two', 'three'], { jobs: [job([])], believedPid });
    expect(new Set(replicas.map(({ instanceId }) => instanceId)).size).toBe(3);
  });

  it('B15 G6 one that is restarted is not taken for the one that was killed: the run goes on after its lease, then the next', async () => {
    const killed = await cluster.start('the only one', {
      jobs: [job([{ receipt: 'a' }, { gate: 'running' }])],
      believedPid,
    });
    const at = await killed.atGate('running');
    await killed.kill();
    const abandoned = await cluster.ledger.run(at);
    const restarted = await cluster.start('the only one', {
      jobs: [job([{ receipt: 'a' }, { receipt: 'b' }])],
      believedPid,
    });

    await restarted.event('run.completed', { ...at, attempt: 2 });
    const run = await cluster.ledger.run(at);
    expect(run).toMatchObject({ status: 'done', attempt: 2, claimedBy: restarted.instanceId });
    expect(run.earlierAttempts).toMatchObject([{ attempt: 1, claimedBy: killed.instanceId, status: 'orphaned' }]);
    const leaseUntil = abandoned.leaseUntil!.getTime();
    expect(run.startedAt!.getTime()).toBeGreaterThanOrEqual(leaseUntil);
    const [started] = restarted.heard('scheduler.started');
    const [orphaned] = restarted.heard('run.orphaned', at);
    const reapedAt = leaseUntil + orphaned!.overdueMs;
    expect(reapedAt - Math.max(leaseUntil, started!.at.getTime())).toBeLessThan(POLL_MS + SLACK_MS);

    const next = await restarted.event('run.completed', { jobName: 'job', attempt: 1 });
    const rows = (await cluster.ledger.runs('job')).filter(({ fireTime }) => fireTime <= next.fireTime);
    const seconds = rows.map(({ fireTime }) => fireTime.getTime());
    expect(seconds).toEqual(rows.map((_, index) => seconds[0]! + index * 1_000));
    expect(rows.filter(({ status, reason }) => status !== 'done' && reason !== 'overlap')).toEqual([]);
    const effects = await cluster.ledger.effects('job', at.fireTime);
    expect(effects.map(({ entity, attempt }) => [entity, attempt])).toEqual([
      ['a', 1],
      ['b', 2],
    ]);
  });
});
