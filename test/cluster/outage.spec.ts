import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster, LEASE_MS, SLACK_MS } from './harness/cluster.js';
import { EVERY_SECOND, everyTenSeconds } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import { Wire } from '../support/wire.js';
import type { ReplicaJob, Step } from './replica/settings.js';

describe('replicas that lose the database', () => {
  let cluster: Cluster;
  let wire: Wire;
  beforeEach(async () => {
    cluster = await Cluster.create();
    wire = await Wire.to(cluster.database.url);
  });
  afterEach(async () => {
    wire.end();
    await cluster.end();
  });

  const tick: ReplicaJob = { name: 'tick', cron: EVERY_SECOND, steps: [{ receipt: 'tick' }] };

  it('G12 a handler is told to stop when its lease can’t be renewed, before another replica starts', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const job = (steps: Step[]): ReplicaJob[] => [{ name: 'job', cron, steps }];
    const lonely = await cluster.start('lonely', {
      jobs: job([{ gate: 'running' }, { untilAborted: true }, { gate: 'aborted' }]),
      url: wire.url,
    });
    const at = await lonely.atGate('running');
    const heir = await cluster.start('heir', { jobs: job([{ receipt: 'a' }]) });
    lonely.open('running', at);
    wire.silence();

    await lonely.atGate('aborted', at);
    const [lost] = lonely.heard('lease.lost', at);
    await heir.event('run.completed', { ...at, attempt: 2 });
    const run = await cluster.ledger.run(at);
    expect(lost!.cause).toBe('expired');
    // One machine, one clock: the two can be compared. A busy one is late with its timers.
    expect(lost!.at.getTime() - run.startedAt!.getTime()).toBeLessThan(SLACK_MS);

    wire.mend();
    lonely.open('aborted', at);
    await lonely.event('run.refused', at);
    expect(await cluster.ledger.run(at)).toMatchObject({ status: 'done', attempt: 2, claimedBy: heir.instanceId });
    expect(lonely.isAlive).toBe(true);
  });

  it.each(['cut', 'silent'] as const)(
    'G12 G5 all live through a database that is %s for longer than a lease, and catch up',
    async (how) => {
      const replicas = await cluster.startAll(['one', 'two'], { jobs: [tick], url: wire.url });
      const [before] = await done(0);
      const outage = await cluster.ledger.now();
      if (how === 'cut') wire.cut();
      else wire.silence();
      await eventually(
        'the outage to be longer than a lease',
        async () => (await cluster.ledger.now()).getTime() > outage.getTime() + 1.5 * LEASE_MS,
      );
      wire.mend();
      await caughtUp(before!.fireTime);
      expect(replicas.map(({ isAlive }) => isAlive)).toEqual([true, true]);
    },
  );

  /** Runs whose fire time is after, done. At least one. */
  function done(after: number) {
    return eventually('a run to be done', async () => {
      const runs = (await cluster.ledger.runs('tick')).filter(
        ({ fireTime, status }) => fireTime.getTime() > after && status === 'done',
      );
      return runs.length > 0 && runs;
    });
  }

  /** Every second from then on has been run, and has its effect once; new ones are on time. */
  async function caughtUp(from: Date): Promise<void> {
    const [fresh] = await done((await cluster.ledger.now()).getTime());
    expect(fresh!.startedAt!.getTime() - fresh!.fireTime.getTime()).toBeLessThan(SLACK_MS);
    const seconds = (fresh!.fireTime.getTime() - from.getTime()) / 1_000 + 1;
    const runs = await eventually(
      'the missed seconds to be done',
      async () => {
        const rows = (await cluster.ledger.runs('tick')).filter(
          ({ fireTime }) => from <= fireTime && fireTime <= fresh!.fireTime,
        );
        return rows.length === seconds && rows.every(({ status }) => status === 'done') && rows;
      },
      { seen: () => cluster.ledger.runs('tick') },
    );
    for (const { fireTime } of runs) expect(await cluster.ledger.effects('tick', fireTime)).toHaveLength(1);
  }
});
