import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster, type ReplicaPlan } from './harness/cluster.js';
import { eventually } from './harness/eventually.js';
import { buildNextRelease, type NextRelease } from './harness/next-release.js';
import type { Replica } from './harness/replica.js';
import type { Attempt } from './replica/messages.js';

/** So many that each replica has some of them in its share. */
const STEADY = Array.from({ length: 12 }, (_, index) => `steady-${index}`);

const THIS: ReplicaPlan = {
  jobs: [
    ...STEADY.map((name) => ({ name, cron: '* * * * * *', steps: [{ receipt: name }] })),
    {
      name: 'long',
      cron: '0 0 29 2 *',
      overlap: 'queue',
      steps: [{ receipt: 'first' }, { receipt: 'second', inside: [{ gate: 'inside' }, { effect: 'second' }] }],
    },
  ],
  scheduler: { logging: true },
};

/** Two builds of the library, each with functions of its own, on one database. */
describe('two releases side by side', () => {
  let release: NextRelease;
  let next: ReplicaPlan;
  let cluster: Cluster;
  beforeAll(async () => {
    release = await buildNextRelease();
    next = { ...THIS, program: release.program };
  });
  afterAll(() => release.remove());
  beforeEach(async () => {
    cluster = await Cluster.create();
  });
  afterEach(() => cluster.end());

  const runNow = (replica: Replica) =>
    replica.call<{ fireTime: Date }>('SchedulerService', 'runNow', 'long', { by: 'ops', reason: 'a test' });

  /** The one that holds a receipt and another that waits are left to a replica of the other release. */
  async function goesOver(from: Replica, other: () => Promise<Replica>): Promise<Replica> {
    const { fireTime } = await runNow(from);
    await from.atGate('inside', { fireTime, attempt: 1 });
    const waiting = await runNow(from);
    const to = await other();
    await worksAlso(to);
    await worksAlso(from);
    await from.kill();
    // Which of them is first depends on whether the lease is found to be over by the reaper or by what waits.
    await Promise.all([
      finishes(to, { jobName: 'long', fireTime, attempt: 2 }),
      finishes(to, { jobName: 'long', fireTime: waiting.fireTime, attempt: 1 }),
    ]);
    return to;
  }

  async function finishes(replica: Replica, { attempt, ...run }: Attempt): Promise<void> {
    replica.open('inside', await replica.atGate('inside', { ...run, attempt }));
    await replica.event('run.completed', run);
    expect(await cluster.ledger.run(run)).toMatchObject({ status: 'done', attempt });
    expect((await cluster.ledger.effects('long', run.fireTime)).map(({ entity }) => entity)).toEqual([
      'first',
      'second',
    ]);
  }

  async function worksAlso(replica: Replica): Promise<void> {
    const mine = async () => (await steady()).filter((effect) => effect.replica === replica.name).length;
    const before = await mine();
    await eventually(`another run of ${replica.name}`, async () => (await mine()) > before);
  }

  it('what runs and what waits of each goes on with the other, and each effect happens once', async () => {
    const older = await cluster.start('older', THIS);
    expect(await functionsOf('job_run_claim')).toEqual(['job_run_claim_1']);
    // The newer one migrates while the older one is at work.
    const newer = await goesOver(older, () => cluster.start('newer', next));
    expect(await functionsOf('job_run_claim')).toEqual(['job_run_claim_1', 'job_run_claim_2']);
    // The rollback: the older one starts on the newer one's schema.
    const again = await goesOver(newer, () => cluster.start('older-again', THIS));
    expect(again.said).toMatch(/Schema "public" is of a newer release .*It serves this release, too, which goes on/);
    expect(newer.said).not.toContain('newer release');

    for (const replica of [older, newer, again]) {
      expect(replica.heard('loop.failed')).toEqual([]);
      expect(replica.heard('run.failed')).toEqual([]);
    }
    const runs = (await steady()).map(({ jobName, fireTime }) => `${jobName} of ${fireTime.toISOString()}`);
    expect(new Set(runs).size).toBe(runs.length);
    expect(await cluster.ledger.deadlocks()).toBe(0);
  });

  const steady = async () => (await Promise.all(STEADY.map((name) => cluster.ledger.effects(name)))).flat();
  const functionsOf = async (name: string) =>
    (
      await cluster.database.query<{ name: string }>(
        `select proname as name from pg_proc where proname ~ ('^' || $1 || '_\\d$') order by 1`,
        [name],
      )
    ).map((found) => found.name);
});
