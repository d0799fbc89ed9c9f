import { createHmac } from 'node:crypto';
import type { RunKey } from '../runs/run.js';

/** The effect a receipt stands for when a handler has only one for each entity. */
export const DEFAULT_EFFECT = 'default';

/**
 * A key for one effect on one entity in one occurrence: the same on every attempt and replica, 43 characters that are
 * safe in a header. Who does not know the secret cannot say it beforehand: a request or a mail that came first under the
 * same key would have the receiver drop the true one.
 * @param secret of this installation
 */
export function idempotencyKey(secret: string, run: RunKey, entity: string, effect: string = DEFAULT_EFFECT): string {
  const parts = [run.jobName, run.fireTime.toISOString(), entity, effect];
  return createHmac('sha256', secret).update(JSON.stringify(parts)).digest('base64url');
}
