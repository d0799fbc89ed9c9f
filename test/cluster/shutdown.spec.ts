import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { RunKey } from '../../lib/options/run.js';
import { Cluster, type ReplicaPlan } from './harness/cluster.js';
import { everyTenSeconds } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import { holesOf } from './harness/holes.js';

const LEASE_MS = 3_000;

/** From the end of a run's first attempt to the start of its next, in milliseconds, by the database's clock. */
async function betweenItsAttempts({ database }: Cluster, { jobName, fireTime }: RunKey): Promise<number> {
  const [run] = await database.query<{ started_at: Date; finished_at: string }>(
    `select started_at, earlier_attempts -> 0 ->> 'finishedAt' as finished_at from job_runs where job_name = $1 and fire_time = $2`,
    [jobName, fireTime],
  );
  return run!.started_at.getTime() - Date.parse(run!.finished_at);
}

describe('a replica that is asked to end while its handler runs', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('B11 G13 keeps its lease until the handler has ended, which may take longer than a lease', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const jobs = [{ name: 'mailing', cron, lease: LEASE_MS, steps: [{ gate: 'running' }, { effect: 'mail' }] }];
    const replicas = await cluster.startAll(['one', 'two'], { jobs, scheduler: { shutdownTimeout: '25s' } });
    const { replica, at } = await cluster.anyAtGate('running');

    const ended = replica.stop();
    await replica.event('scheduler.stopping');
    const { leaseUntil } = await cluster.ledger.run(at);
    await eventually('a lease that ends two leases later', async () => {
      const run = await cluster.ledger.run(at);
      return run.leaseUntil!.getTime() > leaseUntil!.getTime() + 2 * LEASE_MS;
    });
    replica.open('running', at);

    expect(await ended).toEqual({ code: 0, signal: null });
    expect(await cluster.ledger.run(at)).toMatchObject({ status: 'done', attempt: 1, claimedBy: replica.instanceId });
    expect(await cluster.ledger.effects('mailing', at.fireTime)).toMatchObject([{ replica: replica.name, attempt: 1 }]);
    expect(replica.heard('scheduler.stopped')).toMatchObject([{ abandoned: 0 }]);
    expect(replicas.flatMap((each) => each.heard('run.orphaned', at))).toEqual([]);
  });

  it('B11 G13 hands the run back when the time for it is over; another does it again, and the attempt does not count', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const job = { name: 'mailing', cron, maxAttempts: 1 };
    const leaving = await cluster.start('leaving', {
      jobs: [{ ...job, steps: [{ receipt: 'a' }, { gate: 'running' }, { untilAborted: true }] }],
      scheduler: { shutdownTimeout: 200 },
    });
    const at = await leaving.atGate('running');
    const staying = await cluster.start('staying', { jobs: [{ ...job, steps: [{ receipt: 'a' }, { receipt: 'b' }] }] });
    leaving.open('running', at);

    expect(await leaving.stop()).toEqual({ code: 0, signal: null });
    await staying.event('run.completed', { ...at, attempt: 2 });

    const run = await cluster.ledger.run(at);
    expect(run).toMatchObject({ status: 'done', attempt: 2, releases: 1, claimedBy: staying.instanceId });
    expect(run.earlierAttempts).toMatchObject([{ attempt: 1, claimedBy: leaving.instanceId, status: 'queued' }]);
    const effects = await cluster.ledger.effects('mailing', at.fireTime);
    expect(effects.map(({ entity, replica }) => [entity, replica])).toEqual([
      ['a', 'leaving'],
      ['b', 'staying'],
    ]);
    expect(leaving.heard('run.released', at)).toHaveLength(1);
    expect(staying.heard('run.orphaned', at)).toEqual([]);
  });

  it('gives its run up at once when the handler says so; another begins within a second, while the first still winds down', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const job = { name: 'mailing', cron, maxAttempts: 1, overlap: 'forbid', lease: '10m' } as const;
    // No poll comes in the time of a test: only a wake-up can do it.
    const scheduler = { shutdownTimeout: 200, pollInterval: '1h' } as const;
    const leaving = await cluster.start('leaving', {
      jobs: [
        {
          ...job,
          steps: [
            { receipt: 'a' },
            { gate: 'running' },
            { untilAborted: true },
            { release: 'half of it' },
            { gate: 'winding down' },
            { receipt: 'late' },
          ],
        },
      ],
      scheduler,
    });
    const at = await leaving.atGate('running');
    const staying = await cluster.start('staying', {
      jobs: [{ ...job, steps: [{ receipt: 'a' }, { receipt: 'b' }, { gate: 'last' }] }],
      scheduler,
    });
    leaving.open('running', at);

    const ended = leaving.stop();
    await leaving.atGate('winding down', at);
    const next = await staying.atGate('last', { ...at, attempt: 2 });
    leaving.open('winding down', at);
    expect(await ended).toEqual({ code: 0, signal: null });
    staying.open('last', next);
    await staying.event('run.completed', next);

    const run = await cluster.ledger.run(at);
    expect(run).toMatchObject({ status: 'done', attempt: 2, releases: 1, claimedBy: staying.instanceId });
    expect(run.earlierAttempts).toMatchObject([
      { attempt: 1, claimedBy: leaving.instanceId, status: 'queued', reason: 'released by its handler: half of it' },
    ]);
    expect(await betweenItsAttempts(cluster, at)).toBeLessThan(1_000);
    const effects = await cluster.ledger.effects('mailing', at.fireTime);
    expect(effects.map(({ entity, replica }) => [entity, replica])).toEqual([
      ['a', 'leaving'],
      ['b', 'staying'],
    ]);
    expect(leaving.heard('run.released', at)).toHaveLength(1);
    expect(leaving.heard('scheduler.stopped')).toMatchObject([{ abandoned: 0 }]);
  });

  it('hands its run back when the handler has ended, and another begins within a second', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const job = { name: 'mailing', cron, overlap: 'forbid', lease: '10m' } as const;
    const scheduler = { shutdownTimeout: 200, pollInterval: '1h' } as const;
    const leaving = await cluster.start('leaving', {
      jobs: [{ ...job, steps: [{ gate: 'running' }, { untilAborted: true }] }],
      scheduler,
    });
    const at = await leaving.atGate('running');
    const staying = await cluster.start('staying', { jobs: [{ ...job, steps: [] }], scheduler });
    leaving.open('running', at);

    expect(await leaving.stop()).toEqual({ code: 0, signal: null });
    await staying.event('run.completed', { ...at, attempt: 2 });
    expect(await betweenItsAttempts(cluster, at)).toBeLessThan(1_000);
  });
});

describe('a rolling restart', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('of three replicas across twenty occurrences misses none and repeats none', async () => {
    const plan: ReplicaPlan = { jobs: [{ name: 'job', cron: '* * * * * *', steps: [{ effect: 'job' }] }] };
    const running = await cluster.startAll(['one', 'two', 'three'], plan);
    const done = async (count: number) =>
      eventually(`${count} occurrences`, async () => (await cluster.ledger.effects('job')).length >= count);
    for (let restart = 1; restart <= 6; restart++) {
      await done(3 * restart);
      expect(await running.shift()!.stop()).toEqual({ code: 0, signal: null });
      running.push(await cluster.start(`again-${restart}`, plan));
    }
    await done(24);

    const runs = await cluster.ledger.runs('job');
    expect(await holesOf(cluster.database, 'job')).toMatchObject({ holes: [] });
    expect(runs.filter(({ status, reason }) => !['done', 'running'].includes(status) || reason !== null)).toEqual([]);
    expect(runs.filter(({ attempt, releases }) => attempt - releases !== 1)).toEqual([]);
    const effects = (await cluster.ledger.effects('job')).map(({ fireTime }) => fireTime.getTime());
    expect(new Set(effects).size).toBe(effects.length);
    const inOrder = effects.sort((a, b) => a - b).slice(0, 21);
    expect(inOrder).toEqual(inOrder.map((_, index) => inOrder[0]! + index * 1_000));
  });
});
