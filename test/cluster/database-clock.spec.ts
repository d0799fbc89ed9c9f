import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import type { EmbeddedServer } from '../../lib/database/embedded-server.js';
import { Cluster } from './harness/cluster.js';
import { EVERY_SECOND, everyTenSeconds } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import { describeWithFakedClocks, FakedClock } from './harness/faked-clock.js';
import { judgeSeconds, NOTHING_WRONG, secondsDone } from './harness/seconds.js';
import type { Replica } from './harness/replica.js';
import type { ReplicaJob, Step } from './replica/settings.js';

const HOUR = 3_600_000;
const MOST = 5;

describeWithFakedClocks('a database whose clock steps', () => {
  let clock: FakedClock;
  let server: EmbeddedServer;
  let cluster: Cluster;
  beforeAll(async () => {
    clock = new FakedClock();
    server = await clock.startServer();
  });
  beforeEach(async () => {
    clock.set(0);
    cluster = await Cluster.create({ server: server.url });
  });
  afterEach(() => cluster.end());
  afterAll(async () => {
    await server.stop();
    clock.remove();
  });

  const policies = ['skip', 'once', 'all'] as const;
  const jobs: ReplicaJob[] = policies.map((missed) => ({
    name: missed,
    cron: EVERY_SECOND,
    missed,
    maxCatchUp: MOST,
    lateAfter: '5s',
    steps: [{ effect: 'done' }],
  }));
  // A lease outlives a step, but for one test. The ticker claims more often than the clock is read: it meets the step
  // first.
  const scheduler = { pollInterval: '2s', defaults: { lease: '2h' } } as const;

  /** Everything so far is decided, and every missed occurrence that is to be run has been. */
  async function settled(): Promise<Date> {
    const now = await cluster.ledger.now();
    await Promise.all(policies.map((job) => secondsDone(cluster, job, 2, now)));
    const open = async () =>
      (await Promise.all(policies.map((job) => cluster.ledger.runs(job))))
        .flat()
        .filter(({ status }) => status !== 'done' && status !== 'skipped');
    // A run that fired this moment is no matter.
    await eventually('nothing old to be open', async () => (await open()).every(({ fireTime }) => fireTime > now), {
      seen: open,
    });
    return now;
  }

  async function caughtUp(jobName: string): Promise<number> {
    return (await cluster.ledger.runs(jobName)).filter(
      ({ status, trigger }) => status === 'done' && trigger === 'catch-up',
    ).length;
  }

  async function told(
    replicas: readonly Replica[],
    type: 'clock.skewed' | 'clock.agrees',
    times: number,
  ): Promise<void> {
    await eventually(`${times} times ${type}`, async () =>
      replicas.every((replica) => replica.heard(type).length === times),
    );
  }

  it('G1 G9 G10 an hour on, back again and on: nothing twice, what was jumped over is decided as missed, and nothing hangs', async () => {
    const replicas = await cluster.startAll(['one', 'two'], { jobs, scheduler });
    await settled();

    clock.set(HOUR);
    await told(replicas, 'clock.skewed', 1);
    expect(replicas.every((replica) => replica.heard('clock.skewed')[0]!.skewMs < -HOUR / 2)).toBe(true);
    const ahead = await settled();
    for (const job of policies) expect(await judgeSeconds(cluster, job, ahead)).toEqual(NOTHING_WRONG);
    const [skipped, once, all] = await Promise.all(policies.map(caughtUp));
    expect(skipped).toBe(0);
    // The hour is one gap. A machine that is busy may miss a second more after it, for which 'all' has a run more, and
    // 'once' none if the first was not begun.
    for (const [ran, ofTheHour] of [
      [once, 1],
      [all, MOST],
    ] as const) {
      expect(ran).toBeGreaterThanOrEqual(ofTheHour);
      expect(ran).toBeLessThanOrEqual(ofTheHour + 2);
    }

    clock.set(0);
    await told(replicas, 'clock.agrees', 1);
    const before = await Promise.all(policies.map((job) => cluster.ledger.effects(job)));
    // The hour is decided already. What is deployed now has none of it behind it, and runs.
    const late = await cluster.start('late', {
      jobs: [{ name: 'new', cron: EVERY_SECOND, steps: [{ effect: 'done' }] }],
      scheduler,
    });
    const { fireTime } = await secondsDone(cluster, 'new', 3);
    expect(fireTime.getTime()).toBeLessThan(ahead.getTime());
    expect(await judgeSeconds(cluster, 'new', fireTime)).toEqual(NOTHING_WRONG);
    expect(await Promise.all(policies.map((job) => cluster.ledger.effects(job)))).toEqual(before);

    clock.set(HOUR);
    await told(replicas, 'clock.skewed', 2);
    const again = await settled();
    for (const job of policies) expect(await judgeSeconds(cluster, job, again)).toEqual(NOTHING_WRONG);
    expect([...replicas, late].flatMap((replica) => replica.heard('loop.failed'))).toEqual([]);
  });

  it('G3 G4 G10 an hour on while a handler runs: its lease is over, another goes on, and its effect is there once', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const job = (steps: Step[]): ReplicaJob[] => [
      { name: 'long', cron, missed: 'skip', lease: '1m', renewEvery: '1s', steps },
    ];
    const former = await cluster.start('former', {
      jobs: job([{ receipt: 'a' }, { gate: 'running' }, { receipt: 'b' }]),
      scheduler: { maxConcurrentRuns: 1 },
    });
    const at = await former.atGate('running');
    const heir = await cluster.start('heir', { jobs: job([{ receipt: 'a' }, { receipt: 'b' }]) });
    clock.set(HOUR);
    expect(await former.event('lease.lost', at)).toMatchObject({ cause: 'taken over' });
    await heir.event('run.completed', { ...at, attempt: 2 });
    former.open('running', at);
    await former.event('run.refused', at);
    expect(await cluster.ledger.run(at)).toMatchObject({ status: 'done', attempt: 2, claimedBy: heir.instanceId });
    const effects = await cluster.ledger.effects('long', at.fireTime);
    expect(effects.map(({ entity, replica }) => [entity, replica])).toEqual([
      ['a', 'former'],
      ['b', 'heir'],
    ]);
  });

  it('G6 G10 an hour back while a handler runs: its heartbeat brings the lease back, too', async () => {
    clock.set(HOUR);
    const cron = await everyTenSeconds(cluster.ledger);
    const job = (steps: Step[]): ReplicaJob[] => [{ name: 'long', cron, lease: '3s', renewEvery: '1s', steps }];
    const owner = await cluster.start('owner', { jobs: job([{ gate: 'running' }]) });
    const at = await owner.atGate('running');
    clock.set(0);
    await eventually('a lease that is not an hour long', async () => {
      const [{ leaseUntil }, now] = [await cluster.ledger.run(at), await cluster.ledger.now()];
      return leaseUntil!.getTime() - now.getTime() <= 3_000;
    });
    expect(owner.heard('lease.lost')).toEqual([]);
    owner.open('running', at);
    await owner.event('run.completed', at);
    expect(await cluster.ledger.run(at)).toMatchObject({ status: 'done', attempt: 1 });
  });

  it('B23 years on, to just before New Year and the leap day: each runs at its instant, and those between are recorded', async () => {
    const seldom = { 'new-year': '0 0 1 1 *', 'leap-day': '0 0 29 2 *' };
    const replica = await cluster.start('patient', {
      jobs: Object.entries(seldom).map(([name, cron]) => ({ name, cron, steps: [{ effect: 'done' }] })),
    });
    const year = (await cluster.ledger.now()).getUTCFullYear();
    const newYear = new Date(Date.UTC(year + 1, 0, 1));
    const leapYear = [1, 2, 3, 4, 5, 6, 7, 8]
      .map((years) => year + years)
      .find((each) => new Date(Date.UTC(each, 1, 29)).getUTCDate() === 29)!;
    const leapDay = new Date(Date.UTC(leapYear, 1, 29));

    for (const [jobName, fireTime] of [
      ['new-year', newYear],
      ['leap-day', leapDay],
    ] as const) {
      expect(replica.heard('run.claimed', { jobName })).toEqual([]);
      clock.set(fireTime.getTime() - 2_000 - Date.now());
      await replica.event('run.completed', { jobName, fireTime });
      const run = await cluster.ledger.run({ jobName, fireTime });
      expect(run).toMatchObject({ status: 'done', attempt: 1, trigger: 'schedule' });
      expect(run.startedAt!.getTime()).toBeGreaterThanOrEqual(fireTime.getTime());
      expect(await cluster.ledger.effects(jobName)).toHaveLength(1);
    }
    const between = leapYear - year - 1;
    const rows = await eventually('the New Years between to be recorded', async () => {
      const runs = await cluster.ledger.runs('new-year');
      return (between === 0 || runs.length > 1) && runs;
    });
    expect(rows.slice(1)).toMatchObject(
      between === 0
        ? []
        : [
            {
              status: 'skipped',
              reason: 'missed: too old',
              gapFrom: new Date(Date.UTC(year + 2, 0, 1)),
              fireTime: new Date(Date.UTC(leapYear, 0, 1)),
            },
          ],
    );
  });
});
