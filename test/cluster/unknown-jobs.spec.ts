import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Inventory } from '../../lib/operations/inventory.service.js';
import { closeApps, startApp } from '../integration/support/apps.js';
import { Cluster } from './harness/cluster.js';
import { EVERY_SECOND } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import { secondsDone } from './harness/seconds.js';
import type { ReplicaJob } from './replica/settings.js';

const KEPT: ReplicaJob = { name: 'kept', cron: EVERY_SECOND, steps: [{ effect: 'kept' }] };

describe('a job that not all replicas know', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(async () => {
    await closeApps();
    await cluster.end();
  });

  it('B28 and in the end none: no more of it comes, its last run is closed and offered to nobody, and it is shown as what it is', async () => {
    const dropped: ReplicaJob = {
      name: 'dropped',
      cron: EVERY_SECOND,
      overlap: 'forbid',
      steps: [{ gate: 'running' }],
    };
    const old = await cluster.start('old', { jobs: [KEPT, dropped] });
    const next = await cluster.start('next', { jobs: [KEPT] });
    const at = await old.atGate('running');
    await secondsDone(cluster, 'kept', 3);
    await old.kill();
    const gone = await cluster.ledger.now();

    const closed = await eventually(
      'its run to be closed',
      async () => {
        const run = await cluster.ledger.run(at);
        return run.status === 'orphaned' && run;
      },
      { withinMs: 60_000, seen: () => cluster.ledger.run(at) },
    );
    expect(closed.reason).toBe(`the lease of ${old.instanceId} ran out, and no live instance knows the job`);
    await next.event('run.orphaned', at);
    const asking = await startApp(cluster.database, {}, { enabled: false });
    expect((await asking.get(Inventory).inventory()).find(({ name }) => name === 'dropped')).toMatchObject({
      state: 'unregistered',
      nextFireTime: null,
      waiting: 1,
    });

    await secondsDone(cluster, 'kept', 3, gone);
    expect((await cluster.ledger.runs('dropped')).filter(({ fireTime }) => fireTime > gone)).toEqual([]);
    expect(await cluster.ledger.run(at)).toMatchObject({ status: 'orphaned', attempt: 1 });
    expect(next.heard('loop.failed')).toEqual([]);

    // A rollback brings it back.
    const back = await cluster.start('back', { jobs: [KEPT, { ...dropped, steps: [] }] });
    await back.event('run.completed', { ...at, attempt: 2 });
  });

  it('B29 is left to those that know it: two applications on one schema, a renamed job, and runs of a ghost hurt nobody', async () => {
    const job = (name: string): ReplicaJob => ({ ...KEPT, name, steps: [{ effect: name }] });
    const one = await cluster.start('one', { jobs: [job('ours'), job('before')] });
    await secondsDone(cluster, 'before', 1);
    await one.stop();
    const apps = await Promise.all([
      cluster.start('ours', { jobs: [job('ours'), job('after')] }),
      cluster.start('theirs', { jobs: [job('theirs')] }),
    ]);
    await cluster.database.query(
      `insert into job_runs (job_name, fire_time, status, trigger, next_attempt_at) values ('ghost', date_trunc('second', now() - interval '1 minute'), 'queued', 'schedule', now())`,
    );
    const inserted = await cluster.ledger.now();
    for (const name of ['ours', 'after', 'theirs']) await secondsDone(cluster, name, 3, inserted);

    expect((await cluster.ledger.runs('ghost')).map(({ status }) => status)).toEqual(['queued']);
    expect((await cluster.ledger.runs('before')).filter(({ fireTime }) => fireTime > inserted)).toEqual([]);
    const [ours, theirs] = await Promise.all(['ours', 'theirs'].map((name) => cluster.ledger.effects(name)));
    expect(new Set(ours!.map(({ replica }) => replica))).toEqual(new Set(['one', 'ours']));
    expect(new Set(theirs!.map(({ replica }) => replica))).toEqual(new Set(['theirs']));
    for (const app of apps) {
      expect(app.heard('loop.failed')).toEqual([]);
      expect(app.said).toBe('');
    }
  });
});
