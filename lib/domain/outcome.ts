import type { JobPolicies } from './job-definition.js';
import { decideRetry } from './retry.js';
import type { StoredError } from './stored-error.js';

/** How a handler ended. */
export type HandlerEnd =
  | { readonly kind: 'returned' }
  | { readonly kind: 'threw'; readonly error: StoredError }
  /** It returned or threw after its signal was aborted because the application stops. */
  | { readonly kind: 'stopped' }
  /** It ended after its signal was aborted because the run was cancelled. */
  | { readonly kind: 'cancelled'; readonly reason: string };

/** What is written about the attempt. */
export type Outcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'retry'; readonly error: StoredError; readonly delayMs: number }
  | { readonly kind: 'dead'; readonly error: StoredError }
  /** Handed back: another instance starts it at once, and the attempt does not count. */
  | { readonly kind: 'released' }
  | { readonly kind: 'cancelled'; readonly reason: string };

/**
 * Decides what becomes of a run whose handler has ended.
 * @param counted attempts that count so far, this one included
 * @param random 0 to 1, for the backoff's jitter
 */
export function decideOutcome(end: HandlerEnd, policies: Pick<JobPolicies, 'maxAttempts' | 'backoff'>, counted: number, random: number): Outcome {
  if (end.kind === 'returned') return { kind: 'done' };
  if (end.kind === 'stopped') return { kind: 'released' };
  if (end.kind === 'cancelled') return end;
  const decision = decideRetry(policies, counted, random);
  return decision.retry ? { kind: 'retry', error: end.error, delayMs: decision.delayMs } : { kind: 'dead', error: end.error };
}
