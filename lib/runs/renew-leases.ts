import type { Client } from 'pg';
import type { Tables } from '../database/tables.js';

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
 * Renews all leases of an instance in one statement. A lease that ran out is never revived, and one that another
 * attempt took is not touched. A row that somebody else holds is passed over, so that it does not hold up the others.
 * @param patienceMs how long to wait for the answer
 * @returns what became of each, by its id
 */
export async function renewLeases(
  client: Client,
  tables: Tables,
  leases: readonly LeaseToRenew[],
  patienceMs: number,
): Promise<Map<string, RenewalAnswer>> {
  const text = `select id, renewed_until from ${tables.qualify('job_run_renew_1')}($1, $2, $3, $4, $5, $6)`;
  const values = [
    leases.map(({ id }) => id),
    leases.map(({ jobName }) => jobName),
    leases.map(({ fireTime }) => fireTime),
    leases.map(({ attempt }) => attempt),
    leases.map(({ instanceId }) => instanceId),
    leases.map(({ leaseMs }) => leaseMs),
  ];
  const query = { text, values, query_timeout: patienceMs };
  const { rows } = await client.query<{ id: string; renewed_until: Date | null }>(query);
  const ours = new Map(rows.map((row) => [row.id, row.renewed_until]));
  return new Map(leases.map(({ id }) => [id, answerOf(ours.get(id))]));
}

function answerOf(leaseUntil: Date | null | undefined): RenewalAnswer {
  if (leaseUntil === undefined) return { kind: 'lost' };
  return leaseUntil === null ? { kind: 'held' } : { kind: 'renewed', leaseUntil: leaseUntil.getTime() };
}
