import { createHash } from 'node:crypto';

/** The channel of all instances on one schema: a name that fits (63 bytes), and needs no quotes, whatever the schema's is. */
export function wakeUpChannel(schema: string): string {
  return `nestjs_distributed_cron_${createHash('sha256').update(schema).digest('hex').slice(0, 16)}`;
}
