import { randomBytes } from 'node:crypto';
import type { Client } from 'pg';
import type { Tables } from '../tables.js';

/** Of a bigint: no other session has ever had it. */
function newKey(): string {
  return randomBytes(8).readBigInt64BE().toString();
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
 * said, which comes to the same.
 */
export async function announceLifeline(client: Client, { jobInstances }: Tables, instanceId: string, key: string | null, patienceMs: number): Promise<void> {
  const text = `
    update ${jobInstances}
    set    lifeline = $2
    where  id = $1
    and    lifeline is distinct from $2`;
  const query = { text, values: [instanceId, key], query_timeout: patienceMs };
  await client.query(query);
}

/** One round trip to a session that is still there. */
export async function proveLifeline(client: Client, patienceMs: number): Promise<void> {
  const query = { text: 'select', query_timeout: patienceMs };
  await client.query(query);
}
