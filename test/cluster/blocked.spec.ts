import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster } from './harness/cluster.js';
import { everyTenSeconds } from './harness/crons.js';
import type { ReplicaJob } from './replica/settings.js';

const LEASE_MS = 3_000;

describe('a handler that blocks the event loop', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('G6 keeps its run for three leases: no second attempt begins, and its end is accepted', async () => {
    const job: ReplicaJob = {
      name: 'report',
      cron: await everyTenSeconds(cluster.ledger),
      lease: LEASE_MS,
      steps: [{ receipt: 'before' }, { gate: 'begin' }, { blockMs: 3 * LEASE_MS }, { receipt: 'after' }],
    };
    const replicas = await cluster.startAll(['one', 'two'], { jobs: [job] });
    const { replica, at } = await cluster.anyAtGate('begin');
    replica.open('begin', at);
    await replica.event('run.completed', at);

    expect(await cluster.ledger.run(at)).toMatchObject({ status: 'done', attempt: 1, claimedBy: replica.instanceId, earlierAttempts: [] });
    const effects = await cluster.ledger.effects('report', at.fireTime);
    expect(effects.map(({ entity, attempt }) => [entity, attempt])).toEqual([['before', 1], ['after', 1]]);
    expect(replicas.flatMap((each) => [...each.heard('run.orphaned', at), ...each.heard('lease.lost', at)])).toEqual([]);
  }, 60_000);
});
