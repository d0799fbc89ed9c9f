import type { Client } from 'pg';
import type { Tables } from '../tables.js';

/**
 * Writes since when the event loop of an instance stands still, or that it moves again.
 * @param forMs how long it has stood still; null when it does not
 * @param patienceMs how long to wait for the answer
 */
export async function writeBlocked(client: Client, { jobInstances }: Tables, instanceId: string, forMs: number | null, patienceMs: number): Promise<void> {
  const text = `
    update ${jobInstances}
    set    blocked_since = clock_timestamp() - $2 * interval '1 millisecond'
    where  id = $1`;
  const query = { text, values: [instanceId, forMs], query_timeout: patienceMs };
  await client.query(query);
}
