import { judged, type Wish } from './failure.js';
import type { Backoff } from '../job-definition.js';

/** What becomes of a run whose attempt failed. */
export type RetryDecision = { readonly retry: true; readonly delayMs: number } | { readonly retry: false; readonly reason: string };

/** The longest wait that code may ask for: ten years, far inside what a timestamp holds. */
const LONGEST_BACKOFF_MS = 10 * 365 * 86_400_000;

/**
 * Decides whether a failed attempt is followed by another.
 * @param wish what the error asks for
 * @param counted attempts that count so far, the failed one included: hand-overs of stopping instances do not
 * @param random 0 to 1, for the jitter of a growing backoff
 */
export function decideRetry(policy: { maxAttempts: number; backoff: Backoff }, wish: Wish, counted: number, random: number): RetryDecision {
  if (wish.kind === 'end') return { retry: false, reason: wish.reason };
  if (counted >= policy.maxAttempts) return { retry: false, reason: 'attempts used up' };
  return { retry: true, delayMs: wish.kind === 'later' ? bounded(wish.inMs) : backoffMs(policy.backoff, counted, random) };
}

function backoffMs(backoff: Backoff, failedAttempts: number, random: number): number {
  switch (backoff.kind) {
    case 'fixed':
      return backoff.delayMs;
    case 'exponential': {
      const grown = Math.min(backoff.maxMs, backoff.delayMs * 2 ** (failedAttempts - 1));
      return Math.round(grown * (1 + 0.2 * random));
    }
    case 'function':
      return bounded(judged(backoff.delay(failedAttempts)));
  }
}

function bounded(askedMs: number): number {
  return Number.isFinite(askedMs) ? Math.min(LONGEST_BACKOFF_MS, Math.max(0, Math.round(askedMs))) : 0;
}
