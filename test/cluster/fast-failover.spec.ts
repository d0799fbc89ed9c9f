import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Duration } from '../../lib/options/duration.js';
import { Renumbering } from '../support/renumbering.js';
import { Wire } from '../support/wire.js';
import { Cluster, SLACK_MS } from './harness/cluster.js';
import { everyTenSeconds } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import type { Replica } from './harness/replica.js';
import type { Attempt } from './replica/messages.js';
import type { ReplicaJob, Step } from './replica/settings.js';

/** No test waits for one to end. */
const LONG_LEASE = '10m';
const FAST = { fastFailover: true } as const;

describe('replicas with fast failover', () => {
  let cluster: Cluster;
  let between: { end(): void } | null;
  beforeEach(async () => {
    between = null;
    cluster = await Cluster.create();
  });
  afterEach(async () => {
    between?.end();
    await cluster.end();
  });

  const job = (cron: string, lease: Duration, steps: readonly Step[]): ReplicaJob[] => [
    { name: 'job', cron, lease, maxAttempts: 20, steps },
  ];

  /** Each effect is there once, and of the attempt that its receipt names. */
  async function effectsAreOnce(at: Attempt, entities: readonly string[]): Promise<void> {
    const effects = (await cluster.ledger.effects('job', at.fireTime)).map(({ entity, attempt }) => [entity, attempt]);
    expect(effects.map(([entity]) => entity)).toEqual(entities);
    expect((await cluster.ledger.receipts(at)).map(({ entity, attempt }) => [entity, attempt])).toEqual(effects);
  }

  it('G6 the runs of one that is killed are taken over long before their leases end', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const victim = await cluster.start('victim', {
      jobs: job(cron, LONG_LEASE, [{ receipt: 'a' }, { gate: 'here' }]),
      scheduler: FAST,
    });
    const at = await victim.atGate('here');
    const heir = await cluster.start('heir', {
      jobs: job(cron, LONG_LEASE, [{ receipt: 'a' }, { receipt: 'b' }]),
      scheduler: FAST,
    });
    await victim.kill();

    await heir.event('run.completed', { jobName: 'job', fireTime: at.fireTime });
    const run = await cluster.ledger.run(at);
    expect(run).toMatchObject({ status: 'done', claimedBy: heir.instanceId });
    expect(run.earlierAttempts!.at(-1)).toMatchObject({
      claimedBy: victim.instanceId,
      status: 'orphaned',
      reason: 'the liveness lock of ' + victim.instanceId + ' was gone',
    });
    await effectsAreOnce(at, ['a', 'b']);
  });

  it('G3 G4 one that is frozen is not taken over before its lease ends, and changes nothing when it thaws', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const sleeper = await cluster.start('sleeper', {
      jobs: job(cron, '8s', [{ receipt: 'a' }, { gate: 'here' }, { receipt: 'b' }]),
      scheduler: FAST,
    });
    const at = await sleeper.atGate('here');
    const heir = await cluster.start('heir', {
      jobs: job(cron, '8s', [{ receipt: 'a' }, { receipt: 'b' }]),
      scheduler: FAST,
    });
    sleeper.freeze();
    const frozen = await cluster.ledger.run(at);

    await heir.event('run.completed', { jobName: 'job', fireTime: at.fireTime });
    const run = await cluster.ledger.run(at);
    expect(run.startedAt!.getTime()).toBeGreaterThanOrEqual(frozen.leaseUntil!.getTime());
    expect(run.earlierAttempts!.at(-1)).toMatchObject({
      claimedBy: sleeper.instanceId,
      reason: `the lease of ${sleeper.instanceId} ran out`,
    });

    sleeper.open('here', at);
    sleeper.thaw();
    await sleeper.event('run.refused', at);
    expect(await cluster.ledger.run(at)).toMatchObject({
      status: 'done',
      attempt: run.attempt,
      claimedBy: heir.instanceId,
    });
    await effectsAreOnce(at, ['a', 'b']);
  });

  it('G12 the handlers of one that is cut off are told to stop before another starts', async () => {
    const wire = await Wire.to(cluster.database.url);
    between = wire;
    const cron = await everyTenSeconds(cluster.ledger);
    const lonely = await cluster.start('lonely', {
      jobs: job(cron, LONG_LEASE, [{ gate: 'running' }, { untilAborted: true }, { gate: 'aborted' }, { receipt: 'b' }]),
      url: wire.url,
      scheduler: FAST,
    });
    const at = await lonely.atGate('running');
    const heir = await cluster.start('heir', { jobs: job(cron, LONG_LEASE, [{ receipt: 'a' }]), scheduler: FAST });
    lonely.open('running', at);
    wire.cut();

    await lonely.atGate('aborted', at);
    await heir.event('run.completed', { jobName: 'job', fireTime: at.fireTime });
    const [lost] = lonely.heard('lease.lost', at);
    expect(lost!.cause).toBe('cut off');
    const run = await cluster.ledger.run(at);
    // One machine, one clock: the two can be compared. A busy one is late with its timers.
    expect(lost!.at.getTime() - run.startedAt!.getTime()).toBeLessThan(SLACK_MS);

    wire.mend();
    lonely.open('aborted', at);
    await lonely.event('run.refused', at);
    expect(await cluster.ledger.run(at)).toMatchObject({ status: 'done', claimedBy: heir.instanceId });
    await effectsAreOnce(at, ['a']);
    expect(lonely.isAlive).toBe(true);
  });

  it('G12 one that was cut off alone gives its runs up itself, as soon as the database answers', async () => {
    const wire = await Wire.to(cluster.database.url);
    between = wire;
    const cron = await everyTenSeconds(cluster.ledger);
    const lonely = await cluster.start('lonely', {
      jobs: job(cron, LONG_LEASE, [{ gate: 'running' }, { receipt: 'a' }]),
      url: wire.url,
      scheduler: FAST,
    });
    const at = await lonely.atGate('running');
    wire.cut();
    expect((await lonely.event('lease.lost', at)).cause).toBe('cut off');
    lonely.open('running', at);
    await lonely.event('run.refused', at);
    wire.mend();

    const again = await lonely.atGate('running', { jobName: 'job', fireTime: at.fireTime, attempt: at.attempt + 1 });
    lonely.open('running', again);
    await lonely.event('run.completed', again);
    await effectsAreOnce(at, ['a']);
  });

  it('one whose liveness lock is ended by the server keeps its run, and the others see the new one', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    await cluster.startAll(['one', 'two'], { jobs: job(cron, LONG_LEASE, [{ gate: 'running' }]), scheduler: FAST });
    const lifelines = () =>
      cluster.database.query<{ lifeline: string }>('select lifeline from job_instances order by id');
    await keptOnce(async ({ replica, at }) => {
      const before = await lifelines();
      await cluster.database.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'nestjs-distributed-cron lifeline'`,
      );
      await eventually('new lifelines', async () =>
        (await lifelines()).every(({ lifeline }, index) => lifeline !== before[index]!.lifeline),
      );
      const renewed = await cluster.ledger.now();
      await eventually(
        'longer than anybody would wait',
        async () => (await cluster.ledger.now()).getTime() > renewed.getTime() + 3_000,
      );
      replica.open('running', at);
    });
  });

  it('one whose event loop is blocked keeps its run: the thread goes on to prove it', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    await cluster.startAll(['one', 'two'], {
      jobs: job(cron, LONG_LEASE, [{ gate: 'running' }, { blockMs: 4_000 }]),
      scheduler: FAST,
    });
    await keptOnce(async ({ replica, at }) => replica.open('running', at));
  });

  /** Of three runs one is kept at least: a machine that stands still for a second loses its runs, as it should. */
  async function keptOnce(strike: (running: { replica: Replica; at: Attempt }) => Promise<void>): Promise<void> {
    let kept = false;
    for (let time = 0, after = new Date(0); time < 3 && !kept; time++) {
      const running = await eventually('a run that begins', async () => {
        const [next] = (await cluster.ledger.runs('job')).filter(
          ({ fireTime, status }) => fireTime > after && status === 'running',
        );
        return next && cluster.anyAtGate('running', { jobName: 'job', fireTime: next.fireTime, attempt: next.attempt });
      });
      const { replica, at } = running;
      after = at.fireTime;
      await strike(running);
      kept = await Promise.race([
        replica.event('run.completed', at).then(() => true),
        replica.event('run.refused', at).then(() => false),
      ]);
    }
    expect(kept).toBe(true);
  }

  it.each<[string, string, Partial<typeof FAST>, () => Promise<string>]>([
    [
      'behind a pooler',
      'pooled',
      FAST,
      async () => {
        const pooler = await Renumbering.to(cluster.database.url);
        between = pooler;
        return pooler.url;
      },
    ],
    ['without it, beside others that have it', 'plain', {}, async () => cluster.database.url],
  ])('one %s is judged by its lease', async (_, name, scheduler, urlOf) => {
    const cron = await everyTenSeconds(cluster.ledger);
    const victim = await cluster.start(name, {
      jobs: job(cron, '5s', [{ gate: 'here' }]),
      scheduler,
      url: await urlOf(),
    });
    if (name === 'pooled') await victim.event('fastFailover.unavailable');
    const at = await victim.atGate('here');
    const heir = await cluster.start('heir', { jobs: job(cron, '5s', [{ receipt: 'a' }]), scheduler: FAST });
    await victim.kill();
    const killed = await cluster.ledger.run(at);

    await heir.event('run.completed', { jobName: 'job', fireTime: at.fireTime });
    const run = await cluster.ledger.run(at);
    expect(run.startedAt!.getTime()).toBeGreaterThanOrEqual(killed.leaseUntil!.getTime());
    expect(run.earlierAttempts!.at(-1)).toMatchObject({
      claimedBy: victim.instanceId,
      reason: `the lease of ${victim.instanceId} ran out`,
    });
  });
});
