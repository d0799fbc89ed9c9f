import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Cluster, LEASE_MS, SLACK_MS, type ReplicaPlan } from './harness/cluster.js';
import { EVERY_SECOND, everyTenSeconds } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import { describeWithFakedClocks, FakedClock } from './harness/faked-clock.js';
import { judgeSeconds, NOTHING_WRONG, secondsDone } from './harness/seconds.js';
import type { Replica } from './harness/replica.js';
import type { ReplicaJob } from './replica/settings.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** Nothing is taken over in these tests but what they kill. */
const ONE_ATTEMPT: ReplicaPlan['scheduler'] = { maxClockSkew: '1s', defaults: { lease: '1m' } };

describeWithFakedClocks('replicas whose clocks are wrong', () => {
  let cluster: Cluster;
  let clocks: FakedClock[];
  beforeEach(async () => {
    clocks = [];
    cluster = await Cluster.create();
  });
  afterEach(async () => {
    await cluster.end();
    clocks.forEach((clock) => clock.remove());
  });

  function clockOf(offsetMs: number): FakedClock {
    const clock = new FakedClock(offsetMs);
    clocks.push(clock);
    return clock;
  }

  /** One job that all have, and one that this replica alone has: it can leave nothing of it to the others. */
  function jobsOf(name: string): ReplicaJob[] {
    return ['shared', `own-${name}`].map((job) => ({
      name: job,
      cron: EVERY_SECOND,
      steps: [{ pauseMs: 50 }, { effect: 'done' }],
    }));
  }

  function start(name: string, clock: FakedClock): Promise<Replica> {
    return cluster.start(name, { jobs: jobsOf(name), scheduler: ONE_ATTEMPT, env: clock.env });
  }

  /** Every occurrence so far was run once, on its instant or after, and nothing was skipped. */
  async function allRunOnce(jobName: string): Promise<void> {
    const { fireTime } = await secondsDone(cluster, jobName, 1, await cluster.ledger.now());
    expect(await judgeSeconds(cluster, jobName, fireTime)).toEqual(NOTHING_WRONG);
    const runs = (await cluster.ledger.runs(jobName)).filter((run) => run.fireTime <= fireTime);
    expect(runs.filter(({ status, attempt }) => status !== 'done' || attempt !== 1)).toEqual([]);
    const effects = await cluster.ledger.effects(jobName);
    expect(effects.filter(({ at, fireTime }) => at < fireTime)).toEqual([]);
    for (const run of runs)
      expect(effects.filter((effect) => effect.fireTime.getTime() === run.fireTime.getTime())).toHaveLength(1);
  }

  /** The skew was told once, and is about this much. */
  async function toldOf(replica: Replica, skewMs: number): Promise<void> {
    const about = ({ skewMs: told }: { skewMs: number }) => Math.abs(told - skewMs) < SLACK_MS;
    await eventually(
      `${replica.name} to be told of ${skewMs} ms`,
      async () => replica.heard('clock.skewed').some(about),
      {
        seen: async () => replica.heard('clock.skewed'),
      },
    );
    expect(replica.heard('clock.skewed').filter(about)).toHaveLength(1);
  }

  it.each([
    ['G10 five minutes behind, right, and five minutes ahead', { behind: -5 * MINUTE, right: 0, ahead: 5 * MINUTE }, 3],
    ['B05 G10 four seconds behind, beside one that is right', { behind: -4_000, right: 0 }, 6],
  ] as const)(
    '%s: run every occurrence once, none early, and each one that is wrong is told',
    async (_, offsets, seconds) => {
      const replicas = await Promise.all(
        Object.entries(offsets).map(([name, offsetMs]) => start(name, clockOf(offsetMs))),
      );
      const up = await cluster.ledger.now();
      // The one that is behind comes to the same seconds by its own clock, after the others have done them.
      await secondsDone(cluster, 'shared', seconds, up);
      for (const job of ['shared', ...replicas.map(({ name }) => `own-${name}`)]) await allRunOnce(job);

      for (const replica of replicas) {
        const offsetMs = offsets[replica.name as keyof typeof offsets];
        if (offsetMs === 0) expect(replica.heard('clock.skewed')).toEqual([]);
        else await toldOf(replica, offsetMs);
        expect(replica.heard('clock.agrees')).toEqual([]);
      }
    },
  );

  it('G10 one whose clock jumps an hour ahead, an hour behind and right again, goes on as if nothing had happened', async () => {
    const clock = clockOf(0);
    const [jumper] = await Promise.all([start('jumper', clock), start('right', clockOf(0))]);
    await secondsDone(cluster, 'own-jumper', 2);
    for (const offsetMs of [HOUR, -HOUR]) {
      clock.set(offsetMs);
      await toldOf(jumper, offsetMs);
      await secondsDone(cluster, 'own-jumper', 2, await cluster.ledger.now());
    }
    expect(jumper.heard('clock.agrees')).toEqual([]);
    clock.set(0);
    await jumper.event('clock.agrees');
    for (const job of ['own-jumper', 'shared', 'own-right']) await allRunOnce(job);
    expect(jumper.heard('clock.skewed')).toHaveLength(2);
    expect(jumper.heard('loop.failed')).toEqual([]);
  });

  it('B05 G6 G10 a dead owner is replaced after its lease, not before, by heirs whose clocks are behind and ahead', async () => {
    const cron = await everyTenSeconds(cluster.ledger, 5);
    const job = (heir: string, steps: ReplicaJob['steps']): ReplicaJob => ({ name: `for-${heir}`, cron, steps });
    const heirs = { behind: -5 * MINUTE, ahead: 5 * MINUTE };
    const names = Object.keys(heirs) as (keyof typeof heirs)[];
    const owner = await cluster.start('owner', { jobs: names.map((heir) => job(heir, [{ gate: 'running' }])) });
    const owned = await Promise.all(names.map((heir) => owner.atGate('running', { jobName: `for-${heir}` })));
    // Each heir knows one job alone, and none takes over for the other.
    const started = await Promise.all(
      names.map((heir) =>
        cluster.start(heir, { jobs: [job(heir, [{ effect: 'done' }])], env: clockOf(heirs[heir]).env }),
      ),
    );
    await owner.kill();
    const leases = await Promise.all(owned.map((at) => cluster.ledger.run(at)));
    for (const [index, heir] of started.entries()) {
      const at = owned[index]!;
      await heir.event('run.completed', { ...at, attempt: 2 });
      const run = await cluster.ledger.run(at);
      // That it is not minutes later either is said by the wait for it.
      expect(run.startedAt!.getTime()).toBeGreaterThanOrEqual(leases[index]!.leaseUntil!.getTime());
      expect(run.leaseUntil!.getTime() - run.startedAt!.getTime()).toBeGreaterThanOrEqual(LEASE_MS);
      expect(await cluster.ledger.effects(at.jobName, at.fireTime)).toMatchObject([{ replica: heir.name, attempt: 2 }]);
    }
  });
});
