import type { Backoff } from './job-definition.js';

/** What becomes of a run whose attempt failed. */
export type RetryDecision = { readonly retry: true; readonly delayMs: number } | { readonly retry: false };

/** The longest wait a backoff function may ask for: ten years, far inside what a timestamp holds. */
const LONGEST_BACKOFF_MS = 10 * 365 * 86_400_000;

/**
 * Decides whether a failed attempt is followed by another.
 * @param counted attempts that count so far, the failed one included: hand-overs of stopping instances do not
 * @param random 0 to 1, for the jitter of a growing backoff
 */
export function decideRetry(policy: { maxAttempts: number; backoff: Backoff }, counted: number, random: number): RetryDecision {
  if (counted >= policy.maxAttempts) return { retry: false };
  return { retry: true, delayMs: backoffMs(policy.backoff, counted, random) };
}

function backoffMs(backoff: Backoff, failedAttempts: number, random: number): number {
  switch (backoff.kind) {
    case 'fixed':
      return backoff.delayMs;
    case 'exponential': {
      const grown = Math.min(backoff.maxMs, backoff.delayMs * 2 ** (failedAttempts - 1));
      return Math.round(grown * (1 + 0.2 * random));
    }
    case 'function': {
      const asked = backoff.delay(failedAttempts);
      return Number.isFinite(asked) ? Math.min(LONGEST_BACKOFF_MS, Math.max(0, Math.round(asked))) : 0;
    }
  }
}
