import type { Failure } from './failure.js';
import type { JobPolicies } from '../job-definition.js';
import { decideRetry } from './retry.js';
import type { StoredError } from './stored-error.js';

/** How a handler ended. */
export type HandlerEnd =
  | { readonly kind: 'returned' }
  | ({ readonly kind: 'failed' } & Failure)
  /** It returned or threw after its signal was aborted because the application stops. */
  | { readonly kind: 'stopped' }
  /** It returned or threw after its run was cancelled. */
  | { readonly kind: 'cancelled'; readonly reason: string };

/** What is written about the attempt. */
export type Outcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'retry'; readonly error: StoredError; readonly delayMs: number }
  | { readonly kind: 'dead'; readonly error: StoredError; readonly reason: string }
  /** Handed back: another instance starts it at once, and the attempt does not count. @param reason what its handler says */
  | { readonly kind: 'released'; readonly reason?: string }
  | { readonly kind: 'cancelled'; readonly reason: string };

/**
 * Decides what becomes of a run whose handler has ended.
 * @param counted attempts that count so far, this one included
 * @param random 0 to 1, for the backoff's jitter
 */
export function decideOutcome(end: HandlerEnd, policies: Pick<JobPolicies, 'maxAttempts' | 'backoff'>, counted: number, random: number): Outcome {
  switch (end.kind) {
    case 'returned':
      return { kind: 'done' };
    case 'stopped':
      return { kind: 'released' };
    case 'cancelled':
      return { kind: 'cancelled', reason: end.reason };
    case 'failed': {
      const { error, wish } = end;
      const decision = decideRetry(policies, wish, counted, random);
      return decision.retry ? { kind: 'retry', error, delayMs: decision.delayMs } : { kind: 'dead', error, reason: decision.reason };
    }
  }
}
