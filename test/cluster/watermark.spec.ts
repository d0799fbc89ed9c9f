import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster } from './harness/cluster.js';
import { EVERY_SECOND } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import { holesOf } from './harness/holes.js';
import { randomFrom } from './harness/random.js';
import type { ReplicaJob } from './replica/settings.js';

const MISSED = ['skip', 'once', 'all'] as const;
const JOBS: ReplicaJob[] = MISSED.map((missed) => ({
  name: missed,
  cron: EVERY_SECOND,
  missed,
  overlap: 'allow',
  lateAfter: '2s',
  lease: '1s',
  steps: [{ pauseMs: 700 }],
}));

/** Of three jobs a second, two replicas with two places each leave much undone: it has to be decided all the same. */
const FULL = { jobs: JOBS, scheduler: { maxConcurrentRuns: 2 } };

describe('G5 the watermark', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('trap 21: has no hole behind it, with full replicas that are killed at any moment and rows made by hand between', async () => {
    const random = randomFrom(7);
    let replicas = await cluster.startAll(['a-0', 'b-0'], FULL);
    for (let round = 1; round <= 6; round++) {
      await new Promise((resolve) => setTimeout(resolve, 500 + 1_500 * random()));
      for (const { name } of JOBS) {
        await cluster.database.query(
          `insert into job_runs (job_name, fire_time, status, trigger, reason)
           values ($1, date_trunc('second', now()) + interval '3 seconds', 'skipped', 'schedule', 'by hand')
           on conflict do nothing`,
          [name],
        );
      }
      await replicas[0]!.kill();
      replicas = [replicas[1]!, await cluster.start(`${round % 2 ? 'a' : 'b'}-${round}`, FULL)];
    }
    // All that is left is decided when it has become late, and remembered when the last replica goes.
    const now = await cluster.ledger.now();
    await eventually('everything up to now to be decided', async () => {
      const left = await Promise.all(JOBS.map(({ name }) => undecided(name, now)));
      return left.every((count) => count === 0);
    });
    await Promise.all(replicas.map((replica) => replica.stop()));
    for (const { name } of JOBS) {
      const { checked, holes } = await holesOf(cluster.database, name);
      expect(holes).toEqual([]);
      expect(checked).toBeGreaterThan(5);
    }
  });

  /** How many seconds up to an instant have no row. */
  async function undecided(jobName: string, until: Date): Promise<number> {
    const [row] = await cluster.database.query<{ count: number }>(
      `select count(*)::integer as count
       from   job_schedule schedule
       cross  join generate_series(date_trunc('second', effective_from) + interval '1 second', $2::timestamptz, interval '1 second') as second
       where  name = $1
       and    not exists (
                select from job_runs
                where  job_name = $1
                and    second between coalesce(gap_from, fire_time) and fire_time)`,
      [jobName, until],
    );
    return row!.count;
  }
});
