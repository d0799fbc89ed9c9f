import { createHash } from 'node:crypto';
import type { RunKey } from './run.js';

/** The effect a receipt stands for when a handler has only one for each entity. */
export const DEFAULT_EFFECT = 'default';

/**
 * A key for one effect on one entity in one occurrence: the same on every attempt and replica, 43 characters that are
 * safe in a header.
 */
export function idempotencyKey(run: RunKey, entity: string, effect: string = DEFAULT_EFFECT): string {
  const parts = [run.jobName, run.fireTime.toISOString(), entity, effect];
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}
