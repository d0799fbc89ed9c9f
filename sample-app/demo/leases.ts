import type { Database } from './database.js';

/** Who holds which run, as the database sees it. */
export interface Lease {
  readonly job: string;
  readonly fireTime: Date;
  readonly attempt: number;
  readonly claimedBy: string;
  /** Negative when it ran out and nobody has taken over yet. */
  readonly remainingMs: number;
}

export function readLeases({ dataSource, schema }: Database): Promise<Lease[]> {
  return dataSource.query(
    `select job_name as job, fire_time as "fireTime", attempt, claimed_by as "claimedBy",
            extract(epoch from lease_until - clock_timestamp())::float8 * 1000 as "remainingMs"
     from   ${schema}.job_runs
     where  status = 'running'
     order  by started_at`,
  );
}
