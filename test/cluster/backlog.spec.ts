import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster, SLACK_MS } from './harness/cluster.js';
import { EVERY_SECOND } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import type { ReplicaJob } from './replica/settings.js';

const JOBS = 20;
const CAUGHT_UP = 15;
const SLOTS = 8;
/** A quarter is left free for what comes due. */
const FOR_A_BACKLOG = 6;

describe('B20 trap 19 twenty jobs of every minute that nobody ran for six hours', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('are caught up by two replicas within the bounds of number and room, in order, without doubles, and another job is on time', async () => {
    const names = Array.from({ length: JOBS }, (_, index) => `minutely-${index}`);
    const minutely = names.map(
      (name): ReplicaJob => ({
        name,
        cron: '* * * * *',
        overlap: 'forbid',
        missed: 'all',
        maxCatchUp: CAUGHT_UP,
        steps: [{ effect: name }, { pauseMs: 50 }],
      }),
    );
    const jobs = [...minutely, { name: 'punctual', cron: EVERY_SECOND, steps: [] }];
    await (await cluster.start('before', { jobs })).stop();
    await cluster.database.query(
      `update job_schedule set effective_from = now() - interval '6 hours', decided_until = date_trunc('minute', now() - interval '6 hours') where name = any ($1)`,
      [names],
    );
    // What ran at the end of a minute meanwhile is forgotten with its effect: it is caught up again.
    await cluster.database.query('delete from job_runs');
    await cluster.database.query('delete from effects');
    await cluster.startAll(['one', 'two'], {
      jobs,
      scheduler: { maxConcurrentRuns: SLOTS, defaults: { lease: '20s' } },
    });
    const since = await cluster.ledger.now();

    const all = () => Promise.all(names.map((name) => cluster.ledger.runs(name)));
    const runs = await eventually(
      'all to be caught up',
      async () => {
        const rows = await all();
        return (
          rows.every(
            (each) =>
              each.filter(({ trigger, status }) => trigger === 'catch-up' && status === 'done').length === CAUGHT_UP,
          ) && rows
        );
      },
      {
        withinMs: 110_000,
        seen: async () => (await all()).map((each) => each.filter(({ status }) => status === 'done').length),
      },
    );
    const caughtUp = runs.map((each) =>
      each.filter(({ trigger, status }) => trigger === 'catch-up' && status === 'done'),
    );
    for (const [index, each] of caughtUp.entries()) {
      const begun = each.map(({ startedAt }) => startedAt!.getTime());
      expect(begun).toEqual([...begun].sort((a, b) => a - b));
      const effects = (await cluster.ledger.effects(names[index]!)).map(({ fireTime }) => fireTime.getTime());
      expect(new Set(effects).size).toBe(effects.length);
      expect(
        runs[index]!.filter(({ gapFrom, reason }) => gapFrom !== null && reason?.startsWith('missed')),
      ).toHaveLength(1);
    }
    expect(new Set(caughtUp.flat().map(({ claimedBy }) => claimedBy)).size).toBe(2);
    for (const replica of new Set(caughtUp.flat().map(({ claimedBy }) => claimedBy))) {
      expect(mostAtOnce(caughtUp.flat().filter(({ claimedBy }) => claimedBy === replica))).toBeLessThanOrEqual(
        FOR_A_BACKLOG,
      );
    }
    const punctual = (await cluster.ledger.runs('punctual')).filter(
      ({ trigger, startedAt, fireTime }) => trigger === 'schedule' && startedAt !== null && fireTime > since,
    );
    expect(punctual.length).toBeGreaterThan(0);
    expect(punctual.filter(({ startedAt, fireTime }) => startedAt!.getTime() - fireTime.getTime() > SLACK_MS)).toEqual(
      [],
    );
  });
});

function mostAtOnce(runs: readonly { readonly startedAt: Date | null; readonly finishedAt: Date | null }[]): number {
  const steps = runs.flatMap(
    ({ startedAt, finishedAt }) =>
      [
        [startedAt!.getTime(), 1],
        [finishedAt!.getTime(), -1],
      ] as const,
  );
  let under = 0;
  return Math.max(...steps.sort(([a, one], [b, other]) => a - b || one - other).map(([, step]) => (under += step)));
}
