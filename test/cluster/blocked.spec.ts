import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster } from './harness/cluster.js';
import { everyTenSeconds } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import type { ReplicaJob } from './replica/settings.js';

const LEASE_MS = 3_000;

describe('a handler that blocks the event loop', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('B12 G6 keeps its run for three leases: no second attempt begins, and its end is accepted', async () => {
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

    expect(await cluster.ledger.run(at)).toMatchObject({
      status: 'done',
      attempt: 1,
      claimedBy: replica.instanceId,
      earlierAttempts: [],
    });
    const effects = await cluster.ledger.effects('report', at.fireTime);
    expect(effects.map(({ entity, attempt }) => [entity, attempt])).toEqual([
      ['before', 1],
      ['after', 1],
    ]);
    expect(replicas.flatMap((each) => [...each.heard('run.orphaned', at), ...each.heard('lease.lost', at)])).toEqual(
      [],
    );
  });

  it('is told of by its heartbeat’s thread, for others to see, and by itself when the loop moves again', async () => {
    const job: ReplicaJob = {
      name: 'report',
      cron: await everyTenSeconds(cluster.ledger),
      lease: LEASE_MS,
      steps: [{ gate: 'begin' }, { blockMs: 3 * LEASE_MS }],
    };
    const replica = await cluster.start('one', {
      jobs: [job],
      scheduler: { migrate: true, logging: true, blockedAfter: '1s' },
    });
    const at = await replica.atGate('begin');
    const blockedSince = async () =>
      (
        await cluster.database.query<{ since: Date | null }>(
          'select blocked_since as since from job_instances where id = $1',
          [replica.instanceId],
        )
      )[0]!.since;
    expect(await blockedSince()).toBeNull();

    replica.open('begin', at);
    const since = await eventually('others to see it', blockedSince);
    await eventually('its line', async () => replica.said.includes('stood still'));
    expect(replica.said).toContain(`The event loop of ${replica.instanceId} has stood still for 1`);
    expect(replica.said).toContain(`are kept up to their maxRunTime: report@${at.fireTime.toISOString()}`);
    expect(replica.heard('loop.blocked')).toEqual([]);
    // Its last turn was a beat before.
    expect(since.getTime()).toBeGreaterThan(at.fireTime.getTime() - 1_000);

    expect((await replica.event('loop.blocked')).forMs).toBeGreaterThan(3 * LEASE_MS - 1_100);
    await eventually('others to see that it moves again', async () => (await blockedSince()) === null);
    await replica.event('run.completed', at);
  });

  it('past its maxRunTime loses its run: the thread renews it no more, and another replica starts the next attempt', async () => {
    const job: ReplicaJob = {
      name: 'report',
      cron: await everyTenSeconds(cluster.ledger),
      lease: LEASE_MS,
      maxRunTime: '4s',
      steps: [{ gate: 'begin' }],
    };
    const replicas = await cluster.startAll(['one', 'two'], { jobs: [job] });
    const { replica, at } = await cluster.anyAtGate('begin');
    const other = replicas.find((each) => each !== replica)!;
    replica.open('begin', at, [{ receipt: 'before' }, { blockMs: 5 * LEASE_MS }, { receipt: 'after' }]);
    const next = await other.atGate('begin', { ...at, attempt: 2 });
    other.open('begin', next, [{ receipt: 'before' }, { receipt: 'after' }]);
    await other.event('run.completed', next);
    await replica.event('run.refused', at);

    expect(replica.heard('lease.lost', at)).toMatchObject([{ cause: 'ran too long' }]);
    const run = await cluster.ledger.run(at);
    expect(run).toMatchObject({
      status: 'done',
      attempt: 2,
      claimedBy: other.instanceId,
      earlierAttempts: [{ attempt: 1, status: 'orphaned' }],
    });
    expect(run.startedAt!.getTime() - Date.parse(run.earlierAttempts[0]!.startedAt!)).toBeGreaterThan(4_000);
    const effects = await cluster.ledger.effects('report', at.fireTime);
    expect(effects.map(({ entity, attempt }) => [entity, attempt])).toEqual([
      ['before', 1],
      ['after', 2],
    ]);
  });
});
