import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster, LEASE_MS, POLL_MS, SLACK_MS } from './harness/cluster.js';
import { everyTenSeconds } from './harness/crons.js';
import type { ReplicaJob, Step } from './replica/settings.js';

/** Where the handler of each job stands when its process is killed. */
const KILLED_AT: Record<string, readonly Step[]> = {
  'before-its-first-effect': [{ gate: 'here' }, { receipt: 'a' }, { receipt: 'b' }],
  'between-two-effects': [{ receipt: 'a' }, { gate: 'here' }, { receipt: 'b' }],
  'inside-an-effect': [{ receipt: 'a' }, { receipt: 'b', inside: [{ effect: 'b' }, { gate: 'here' }] }],
  'after-its-last-effect': [{ receipt: 'a' }, { receipt: 'b' }, { gate: 'here' }],
};
const UNHINDERED: readonly Step[] = [{ receipt: 'a' }, { receipt: 'b' }];

describe('a replica that is killed in the middle of its runs', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('G6 G4 is replaced within one lease and one pass of the reaper, and every effect is there once', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const jobs = (steps: (name: string) => readonly Step[]): ReplicaJob[] =>
      Object.keys(KILLED_AT).map((name) => ({ name, cron, steps: steps(name) }));
    const victim = await cluster.start('victim', { jobs: jobs((name) => KILLED_AT[name]!) });
    const stuck = await Promise.all(Object.keys(KILLED_AT).map((jobName) => victim.atGate('here', { jobName })));
    const heir = await cluster.start('heir', { jobs: jobs(() => UNHINDERED) });

    await victim.kill();
    const abandoned = await Promise.all(stuck.map((at) => cluster.ledger.run(at)));
    await Promise.all(stuck.map(({ jobName, fireTime }) => heir.event('run.completed', { jobName, fireTime })));

    for (const before of abandoned) {
      const run = await cluster.ledger.run(before);
      expect(run).toMatchObject({ status: 'done', attempt: 2, claimedBy: heir.instanceId });
      expect(run.earlierAttempts).toMatchObject([{ attempt: 1, claimedBy: victim.instanceId, status: 'orphaned' }]);
      const lateBy = run.startedAt!.getTime() - before.leaseUntil!.getTime();
      expect(lateBy).toBeGreaterThanOrEqual(0);
      expect(lateBy).toBeLessThan(POLL_MS + SLACK_MS);
      const effects = await cluster.ledger.effects(before.jobName, before.fireTime);
      expect(effects.map(({ entity }) => entity)).toEqual(['a', 'b']);
      // The receipt and the effect it stands for are of one attempt.
      const receipts = await cluster.ledger.receipts(before);
      expect(receipts.map(({ entity, attempt }) => ({ entity, attempt }))).toEqual(
        effects.map(({ entity, attempt }) => ({ entity, attempt })),
      );
    }
    expect(
      abandoned.every(({ leaseUntil, startedAt }) => leaseUntil!.getTime() >= startedAt!.getTime() + LEASE_MS),
    ).toBe(true);
  });
});
