import type { Client } from 'pg';
import type { Tables } from '../tables.js';

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

/** What became of a lease that was to be renewed. */
export type RenewalAnswer =
  | { readonly kind: 'renewed'; readonly leaseUntil: number }
  /** The row is held by somebody: ours still, and not renewed. To be tried again. */
  | { readonly kind: 'held' }
  /** The lease ran out, or the run is another attempt's. */
  | { readonly kind: 'lost' };

/**
 * Renews all leases of an instance in one statement. A lease that ran out is never revived, and one that another attempt
 * took is not touched. A row that somebody else holds is passed over, so that it does not hold up the others.
 * @param patienceMs how long to wait for the answer
 * @returns what became of each, by its id
 */
export async function renewLeases(
  client: Client,
  tables: Tables,
  leases: readonly LeaseToRenew[],
  patienceMs: number,
): Promise<Map<string, RenewalAnswer>> {
  const text = `
    with held as materialized (
      select *
      from   unnest($1::text[], $2::text[], $3::timestamptz[], $4::integer[], $5::text[], $6::integer[])
               as held (id, job_name, fire_time, attempt, claimed_by, lease_ms)
    ),
    ours as (
      select held.id
      from   held
      join   ${tables.jobRuns} run on run.job_name = held.job_name and run.fire_time = held.fire_time
      where  run.status = 'running'
      and    run.attempt = held.attempt
      and    run.claimed_by = held.claimed_by
      and    run.lease_until > clock_timestamp()
    ),
    free as (
      select run.job_name, run.fire_time, held.id, held.attempt, held.claimed_by, held.lease_ms
      from   ${tables.jobRuns} run
      join   held on held.job_name = run.job_name and held.fire_time = run.fire_time
      where  run.status = 'running'
      and    run.attempt = held.attempt
      and    run.claimed_by = held.claimed_by
      and    run.lease_until > clock_timestamp()
      for    no key update of run skip locked
    ),
    renewed as (
      update ${tables.jobRuns} run
      set    lease_until = clock_timestamp() + free.lease_ms * interval '1 millisecond'
      from   free
      where  run.job_name = free.job_name
      and    run.fire_time = free.fire_time
      and    run.status = 'running'
      and    run.attempt = free.attempt
      and    run.claimed_by = free.claimed_by
      and    run.lease_until > clock_timestamp()
      returning free.id, run.lease_until
    )
    select ours.id, renewed.lease_until
    from   ours
    left   join renewed on renewed.id = ours.id`;
  const values = [
    leases.map(({ id }) => id),
    leases.map(({ jobName }) => jobName),
    leases.map(({ fireTime }) => fireTime),
    leases.map(({ attempt }) => attempt),
    leases.map(({ instanceId }) => instanceId),
    leases.map(({ leaseMs }) => leaseMs),
  ];
  const query = { text, values, query_timeout: patienceMs };
  const { rows } = await client.query<{ id: string; lease_until: Date | null }>(query);
  const ours = new Map(rows.map((row) => [row.id, row.lease_until]));
  return new Map(leases.map(({ id }) => [id, answerOf(ours.get(id))]));
}

function answerOf(leaseUntil: Date | null | undefined): RenewalAnswer {
  if (leaseUntil === undefined) return { kind: 'lost' };
  return leaseUntil === null ? { kind: 'held' } : { kind: 'renewed', leaseUntil: leaseUntil.getTime() };
}
