import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Cluster } from './harness/cluster.js';
import { everyTenSeconds } from './harness/crons.js';
import { eventually } from './harness/eventually.js';
import type { ReplicaJob } from './replica/settings.js';

const COUNT = 300;

describe('many jobs that are due at one instant', () => {
  let cluster: Cluster;
  beforeEach(async () => void (cluster = await Cluster.create()));
  afterEach(() => cluster.end());

  it('are shared by three equal replicas: none takes more than half', async () => {
    const cron = await everyTenSeconds(cluster.ledger, 8);
    const jobs: ReplicaJob[] = Array.from({ length: COUNT }, (_, index) => ({
      name: `job-${index}`,
      cron,
      steps: [{ pauseMs: 20 }],
    }));
    await cluster.startAll(['a', 'b', 'c'], { jobs, scheduler: { defaults: { lease: '30s' } } });
    const shares = await eventually('one instant to be done whole', async () => {
      const rows = await cluster.database.query<{ claimed_by: string; claimed: number }>(
        `select claimed_by, count(*)::integer as claimed
         from   job_runs
         where  fire_time = (select fire_time from job_runs where status = 'done' group by fire_time having count(*) = ${COUNT} limit 1)
         group  by claimed_by`,
      );
      return rows.length > 0 && rows.map(({ claimed }) => claimed);
    });
    expect(shares.reduce((sum, share) => sum + share, 0)).toBe(COUNT);
    expect(Math.max(...shares)).toBeLessThanOrEqual(COUNT / 2);
  });
});
