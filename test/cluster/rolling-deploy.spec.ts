import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster, type ReplicaPlan } from './harness/cluster.js';
import { eventually } from './harness/eventually.js';

/**
 * Every even second, and every odd one: a fire time says by which version it was made. With a receipt: a kill may hit
 * between effect and end.
 */
const OLD: ReplicaPlan = { jobs: [{ name: 'job', cron: '*/2 * * * * *', steps: [{ receipt: 'job' }] }] };
const NEW: ReplicaPlan = { jobs: [{ name: 'job', cron: '1-59/2 * * * * *', steps: [{ receipt: 'job' }] }] };

/** Two versions of one job's expression, side by side. */
describe('a rolling deploy', () => {
  let cluster: Cluster;
  beforeEach(async () => {
    cluster = await Cluster.create();
  });
  afterEach(() => cluster.end());

  /** Waits until so many more occurrences are done, and says what they were. */
  async function goesOn(more = 2): Promise<string> {
    const before = (await grid()).length;
    return eventually(`${more} more occurrences`, async () => {
      const since = (await grid()).slice(before);
      return since.length >= more && since;
    });
  }

  /** `e` for each even second with a row of its own, `o` for each odd one, in their order. */
  async function grid(): Promise<string> {
    const runs = await cluster.ledger.runs('job');
    return runs
      .filter(({ reason }) => reason !== 'superseded by an edit')
      .map(({ fireTime }) => (fireTime.getTime() % 2_000 === 0 ? 'e' : 'o'))
      .join('');
  }

  it('changes over once, when the last old replica is gone, whatever restarts in between; so does the rollback', async () => {
    const [first, second] = await cluster.startAll(['old-1', 'old-2'], OLD);
    expect(await goesOn()).toMatch(/^e+$/);
    // The deploy: new ones beside old ones, of which one crashes and comes back.
    const [third, fourth] = await cluster.startAll(['new-1', 'new-2'], NEW);
    expect(third!.heard('job.contested')).toHaveLength(1);
    expect(await goesOn()).toMatch(/^e+$/);
    await first!.kill();
    const again = await cluster.start('old-1-again', OLD);
    expect(await goesOn()).toMatch(/^e+$/);
    await Promise.all([second!.stop(), again.stop()]);
    await eventually('the new expression', async () => (await grid()).endsWith('ooo'));
    // The rollback: the old version comes back, and the new one is killed.
    await cluster.startAll(['old-3', 'old-4'], OLD);
    expect(await goesOn()).toMatch(/^o+$/);
    await Promise.all([third!.kill(), fourth!.kill()]);
    await eventually('the old expression', async () => (await grid()).endsWith('eee'));

    expect(await grid()).toMatch(/^e+o+e+$/);
    // Once it was made, and once changed in each direction.
    expect(await cluster.database.query('select revision::integer from job_schedule')).toEqual([{ revision: 3 }]);
    // Each grid is whole while it holds; what falls into a change is recorded.
    const runs = await cluster.ledger.runs('job');
    const gaps = runs.filter(({ reason }) => reason === 'superseded by an edit');
    expect(gaps.length).toBeLessThanOrEqual(2);
    expect(runs.filter(({ status }) => status === 'dead' || status === 'failed')).toEqual([]);
    const effects = await cluster.ledger.effects('job');
    expect(new Set(effects.map(({ fireTime }) => fireTime.getTime())).size).toBe(effects.length);
    for (const [index, run] of runs.slice(1).entries()) {
      const step = (run.fireTime.getTime() - runs[index]!.fireTime.getTime()) / 1_000;
      expect(
        step <= 2 || gaps.includes(run) || gaps.includes(runs[index]!) || changes(runs[index]!.fireTime, run.fireTime),
      ).toBe(true);
    }
  });

  it('of a renamed job runs each occurrence under one name', async () => {
    const renamed: ReplicaPlan = { jobs: [{ ...OLD.jobs[0]!, name: 'renamed', previously: 'job' }] };
    const old = await cluster.start('old-1', OLD);
    await goesOn();
    await cluster.start('new-1', renamed);
    expect(await cluster.ledger.runs('renamed')).toEqual([]);
    expect(await goesOn()).toMatch(/^e+$/);
    await old.stop();
    await eventually('the new name', async () => (await cluster.ledger.effects('renamed')).length >= 3);
    const effects = [...(await cluster.ledger.effects('job')), ...(await cluster.ledger.effects('renamed'))]
      .map(({ fireTime }) => fireTime.getTime())
      .sort((a, b) => a - b);
    expect(new Set(effects).size).toBe(effects.length);
    // None is left out: what nobody ran between the two is caught up, or late.
    for (const [index, fireTime] of effects.slice(1).entries()) expect(fireTime - effects[index]!).toBe(2_000);
  });
});

function changes(from: Date, to: Date): boolean {
  return from.getTime() % 2_000 !== to.getTime() % 2_000;
}
