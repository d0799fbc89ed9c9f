import { randomInt } from 'node:crypto';
import type { Client } from 'pg';
import { monotonicNow } from '../../runtime/monotonic.js';
import type { Tables } from '../tables.js';

const RANDOM_BITS = 21;

/** Of a bigint: no other session has had it, and a later one of the same process has a higher one. */
function newKey(): string {
  return ((BigInt(Math.floor(monotonicNow())) << BigInt(RANDOM_BITS)) + BigInt(randomInt(2 ** RANDOM_BITS))).toString();
}

/**
 * Takes the advisory lock that this session holds to its end.
 * @param patienceMs how long to wait for the answer
 * @returns its key
 */
export async function holdLifeline(client: Client, patienceMs: number): Promise<string> {
  const key = newKey();
  const query = { text: 'select pg_try_advisory_lock($1::bigint) as held', values: [key], query_timeout: patienceMs };
  const { rows } = await client.query<{ held: boolean }>(query);
  if (!rows[0]!.held) throw new Error(`Somebody else holds the advisory lock ${key}.`);
  return key;
}

/**
 * Says which lock this instance holds while it lives; null: none, it is judged by its leases. Where its row is gone nothing is
 * said, which comes to the same. A former session that was given up may still say so, once it gets the row: that comes too late.
 */
export async function announceLifeline(client: Client, { jobInstances }: Tables, instanceId: string, key: string | null, patienceMs: number): Promise<void> {
  const text = `
    update ${jobInstances}
    set    lifeline = $2::bigint
    where  id = $1
    and   ($2::bigint is null or lifeline is null or lifeline < $2)`;
  const query = { text, values: [instanceId, key], query_timeout: patienceMs };
  await client.query(query);
}

/** One round trip to a session that is still there. */
export async function proveLifeline(client: Client, patienceMs: number): Promise<void> {
  const query = { text: 'select', query_timeout: patienceMs };
  await client.query(query);
}
