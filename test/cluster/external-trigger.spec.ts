import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { runCommand } from '../../lib/cli/run-command.js';
import type { Delivered } from '../../lib/index.js';
import { Cluster } from './harness/cluster.js';
import { EVERY_SECOND } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import type { ReplicaJob, Step } from './replica/settings.js';

const MINUTE_MS = 60_000;
const NAMES = ['A', 'B', 'C'];

describe('a clock outside', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  const external = (steps: readonly Step[]): ReplicaJob => ({
    name: 'export',
    cron: '* * * * *',
    trigger: 'external',
    missed: 'all',
    overlap: 'allow',
    steps,
  });

  /** As if the job had been there for long. */
  async function longAgo(): Promise<void> {
    await cluster.database.query(`update job_schedule set effective_from = '2020-01-01', decided_until = '2020-01-01'`);
  }

  async function deliver(fireTime: Date, ...args: string[]): Promise<Delivered> {
    const said: string[] = [];
    const at = fireTime.toISOString();
    const code = await runCommand(['trigger', 'export', '--fire-time', at, '--json', ...args], {
      env: { DATABASE_URL: cluster.database.url },
      say: (text) => void said.push(text),
      complain: (text) => void said.push(text),
    });
    if (code !== 0) throw new Error(`Exit code ${code}: ${said.join('\n')}`);
    return JSON.parse(said[0]!) as Delivered;
  }

  it('G1 delivers each of five occurrences six times at the same time, and three replicas run each once', async () => {
    await cluster.startAll(NAMES, { jobs: [external([{ effect: 'mail' }])] });
    await longAgo();
    const now = Math.floor((await cluster.ledger.now()).getTime() / MINUTE_MS) * MINUTE_MS;
    const fireTimes = [5, 4, 3, 2, 1].map((minutes) => new Date(now - minutes * MINUTE_MS));
    const all = await Promise.all(
      fireTimes.flatMap((fireTime) => Array.from({ length: 6 }, () => deliver(fireTime, '--wait', '60s'))),
    );
    expect(all.every(({ status }) => status === 'done')).toBe(true);
    expect(all.filter(({ duplicate }) => !duplicate)).toHaveLength(5);
    const runs = await cluster.ledger.runs('export');
    expect(runs.map(({ fireTime }) => fireTime)).toEqual(fireTimes);
    expect(runs.every(({ trigger, attempt }) => trigger === 'external' && attempt === 1)).toBe(true);
    expect((await cluster.ledger.effects('export')).map(({ fireTime }) => fireTime.getTime()).sort()).toEqual(
      fireTimes.map((at) => at.getTime()).sort(),
    );
  });

  it('G4 G6 delivers again while a killed replica still has the run: another finishes it, with its receipts', async () => {
    const steps: readonly Step[] = [{ receipt: 'a' }, { gate: 'here' }, { receipt: 'b' }];
    const victim = await cluster.start('victim', { jobs: [external(steps)] });
    await longAgo();
    const fireTime = new Date(Math.floor((await cluster.ledger.now()).getTime() / MINUTE_MS) * MINUTE_MS);
    await deliver(fireTime);
    await victim.atGate('here');
    await victim.kill();
    expect(await deliver(fireTime)).toMatchObject({ duplicate: true, status: 'running' });
    const heir = await cluster.start('heir', { jobs: [external([{ receipt: 'a' }, { receipt: 'b' }])] });
    expect(await deliver(fireTime, '--wait', '60s')).toMatchObject({ duplicate: true, status: 'done' });
    expect(await cluster.ledger.run({ jobName: 'export', fireTime })).toMatchObject({
      status: 'done',
      attempt: 2,
      claimedBy: heir.instanceId,
      trigger: 'external',
    });
    expect((await cluster.ledger.effects('export')).map(({ entity }) => entity)).toEqual(['a', 'b']);
  });

  it('takes over from the schedule when the last replica that declares it has gone, and nothing runs twice', async () => {
    const job = (trigger: 'schedule' | 'external'): ReplicaJob => ({
      name: 'export',
      cron: EVERY_SECOND,
      trigger,
      missed: 'once',
      overlap: 'allow',
      steps: [{ effect: 'mail' }],
    });
    const runs = async (more: number) => {
      const done = async () => (await cluster.ledger.runs('export')).filter(({ status }) => status === 'done').length;
      const before = await done();
      await eventually(`${more} more runs`, async () => (await done()) >= before + more);
    };
    const old = await cluster.start('old', { jobs: [job('schedule')] });
    await old.event('run.completed');
    const young = await cluster.start('young', { jobs: [job('external')] });
    // While both are there, the schedule holds for both; which of them runs it is the job's and their names'.
    const contested = await young.event('job.contested');
    expect(contested).toMatchObject({
      declared: `"${EVERY_SECOND}" (UTC, delivered from outside)`,
      holds: `"${EVERY_SECOND}" (UTC)`,
    });
    await runs(2);
    await old.stop();
    await young.event('job.scheduled', { jobName: 'export' });
    const count = async () => (await cluster.ledger.runs('export')).filter(({ status }) => status !== 'skipped').length;
    await eventually('what was due before to be done', async () =>
      (await cluster.ledger.runs('export')).every(({ status }) => status === 'done' || status === 'skipped'),
    );
    const before = await count();
    await cluster.database.query('select pg_sleep(3)');
    expect(await count()).toBe(before);
    const [last] = (await cluster.ledger.runs('export')).filter(({ status }) => status === 'done').slice(-1);
    expect(await deliver(last!.fireTime)).toMatchObject({ duplicate: true, status: 'done' });
    const fireTime = new Date(Math.floor((await cluster.ledger.now()).getTime() / 1_000) * 1_000);
    expect(await deliver(fireTime, '--wait', '60s')).toMatchObject({ duplicate: false, status: 'done' });
    const effects = (await cluster.ledger.effects('export')).map((effect) => effect.fireTime.getTime());
    expect(new Set(effects).size).toBe(effects.length);
  });
});
