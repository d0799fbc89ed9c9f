import type { Client } from 'pg';
import type { Tables } from './tables.js';

/** One lease to renew: the fence and its length. */
export interface LeaseToRenew {
  readonly id: string;
  readonly jobName: string;
  /** ISO 8601. */
  readonly fireTime: string;
  readonly attempt: number;
  readonly instanceId: string;
  readonly leaseMs: number;
}

/**
 * Renews all leases of an instance in one statement. A lease that ran out is never revived, and one that another attempt
 * took is not touched.
 * @param patienceMs how long to wait for the answer
 * @returns the new `lease_until` in milliseconds, by the id of each lease that is still ours
 */
export async function renewLeases(
  client: Client,
  tables: Tables,
  leases: readonly LeaseToRenew[],
  patienceMs: number,
): Promise<Map<string, number>> {
  const text = `update ${tables.jobRuns} run
     set    lease_until = clock_timestamp() + held.lease_ms * interval '1 millisecond'
     from   unnest($1::text[], $2::text[], $3::timestamptz[], $4::integer[], $5::text[], $6::integer[])
              as held (id, job_name, fire_time, attempt, claimed_by, lease_ms)
     where  run.job_name = held.job_name
     and    run.fire_time = held.fire_time
     and    run.status = 'running'
     and    run.attempt = held.attempt
     and    run.claimed_by = held.claimed_by
     and    run.lease_until > clock_timestamp()
     returning held.id, run.lease_until`;
  const values = [
    leases.map(({ id }) => id),
    leases.map(({ jobName }) => jobName),
    leases.map(({ fireTime }) => fireTime),
    leases.map(({ attempt }) => attempt),
    leases.map(({ instanceId }) => instanceId),
    leases.map(({ leaseMs }) => leaseMs),
  ];
  const query = { text, values, query_timeout: patienceMs };
  const { rows } = await client.query<{ id: string; lease_until: Date }>(query);
  return new Map(rows.map((row) => [row.id, row.lease_until.getTime()]));
}
