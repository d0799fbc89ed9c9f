import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { SchedulerService, type DistributedSchedulerOptions } from '../../lib/index.js';
import { Cancels } from '../../lib/operations/run-requests.service.js';
import { Holds } from '../../lib/operations/holds.service.js';
import { closeApps, startApp } from '../integration/support/apps.js';
import { Cluster } from './harness/cluster.js';
import { everyTenSeconds } from './harness/crons.js';
import { eventually } from './harness/eventually.js';

/** An operator's process, which runs no job itself. */
const OPERATOR: DistributedSchedulerOptions = { enabled: false };
const OPS = { by: 'ops', reason: 'because' };

/** The leases are so long that nothing but a look at the database can end a run within a test. */
describe('what an operator does on another replica', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(async () => {
    await closeApps();
    await cluster.end();
  });

  it('reaches the running handler and the next start at the next look', async () => {
    const cron = await everyTenSeconds(cluster.ledger);
    const job = { name: 'exports', cron, flag: 'exports', flagOff: 'cancel', lease: '10m', overlap: 'forbid' } as const;
    const steps = [{ gate: 'running' }, { untilAborted: true as const }, { effect: 'late' }];
    await cluster.startAll(['one', 'two'], { jobs: [{ ...job, steps }] });
    const operator = await startApp(cluster.database, {}, OPERATOR);

    const first = await cluster.anyAtGate('running');
    first.replica.open('running', first.at);
    await operator.get(Holds).setFlag('exports', false, OPS);
    expect(await first.replica.event('run.cancelled', first.at)).toMatchObject({ reason: 'flag off: exports' });
    expect(await cluster.ledger.run(first.at)).toMatchObject({
      status: 'cancelled',
      reason: 'flag off: exports',
      attempt: 1,
    });
    await eventually('an occurrence that is skipped', async () =>
      (await cluster.ledger.runs('exports')).find(
        ({ reason, status }) => status === 'skipped' && reason === 'flag off: exports',
      ),
    );

    const seen = (await cluster.ledger.runs('exports')).length;
    await operator.get(Holds).setFlag('exports', true, OPS);
    const fireTime = await eventually(
      'another that runs',
      async () =>
        (await cluster.ledger.runs('exports')).slice(seen).find(({ status }) => status === 'running')?.fireTime,
    );
    const second = await cluster.anyAtGate('running', { fireTime });
    second.replica.open('running', second.at);
    expect(await operator.get(Cancels).cancel('exports', fireTime, OPS)).toBe('requested');
    expect(await second.replica.event('run.cancelled', second.at)).toMatchObject({
      reason: 'cancelled by ops: because',
    });
    expect(await cluster.ledger.run(second.at)).toMatchObject({ status: 'cancelled', attempt: 1 });
  });

  it('tells a handler on another replica to stop within a second, though nobody polls', async () => {
    const steps = [{ gate: 'running' }, { untilAborted: true as const }];
    const scheduler = { pollInterval: '1h' } as const;
    await cluster.startAll(['one', 'two'], {
      jobs: [{ name: 'exports', cron: '0 3 29 2 *', lease: '10m', overlap: 'forbid', steps }],
      scheduler,
    });
    const operator = (await startApp(cluster.database, {}, OPERATOR)).get(SchedulerService);

    for (let many = 1; many <= 5; many++) {
      const { fireTime } = await operator.runNow('exports', OPS);
      const { replica, at } = await cluster.anyAtGate('running', { fireTime });
      replica.open('running', at);
      expect(await operator.cancel('exports', fireTime, OPS)).toBe('requested');
      await replica.event('run.cancelled', at);
    }
    const took = await cluster.database.query<{ ms: number }>(
      `select extract(epoch from finished_at - cancel_requested_at)::float8 * 1000 as ms from job_runs where trigger = 'manual' and status = 'cancelled'`,
    );
    expect(took).toHaveLength(5);
    for (const { ms } of took) expect(ms).toBeLessThan(1_000);
  });
});
