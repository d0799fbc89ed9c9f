import { GiveUp } from '../../errors/give-up.error.js';
import { RetryLater } from '../../errors/retry-later.error.js';
import { parseDuration } from '../duration.js';
import type { RetryableFunction } from '../job-definition.js';
import { describeError, type StoredError } from './stored-error.js';

/** What an attempt failed with, and what it asks for. */
export interface Failure {
  readonly error: StoredError;
  readonly wish: Wish;
  /** What `retryable` threw, when it did. */
  readonly complaint?: StoredError;
}

/** What is to become of the run, as far as the error says. */
export type Wish =
  /** Another attempt after the backoff, if there is one left. */
  | { readonly kind: 'retry' }
  /** Another attempt in so many milliseconds, if there is one left. */
  | { readonly kind: 'later'; readonly inMs: number }
  /** No other attempt. */
  | { readonly kind: 'end'; readonly reason: string };

/**
 * Reads what a handler threw.
 * @param now milliseconds, by the clock that attempts are due by
 */
export function readFailure(thrown: unknown, retryable: RetryableFunction | null, now: number): Failure {
  const error = describeError(thrown);
  if (isA(thrown, GiveUp)) return { error, wish: { kind: 'end', reason: `gave up: ${error.message}` } };
  if (isA(thrown, RetryLater)) return { error, wish: { kind: 'later', inMs: untilTime(thrown.at, now) } };
  if (!retryable) return { error, wish: { kind: 'retry' } };
  try {
    if (judged(retryable(thrown)) === false) return { error, wish: { kind: 'end', reason: 'not retryable' } };
    return { error, wish: { kind: 'retry' } };
  } catch (complaint) {
    return { error, wish: { kind: 'retry' }, complaint: describeError(complaint) };
  }
}

/** Whether a handler says itself what is to become of its run. */
export function isVerdict(thrown: unknown): boolean {
  return isA(thrown, GiveUp) || isA(thrown, RetryLater);
}

/** A proxy may throw at every question, even at `instanceof`. */
function isA<T>(thrown: unknown, type: abstract new (...args: never[]) => T): thrown is T {
  try {
    return thrown instanceof type;
  } catch {
    return false;
  }
}

function untilTime(at: RetryLater['at'], now: number): number {
  return at instanceof Date ? at.getTime() - now : (parseDuration(at) ?? 0);
}

/** The answer of an application's function. A promise is none, and what it rejects with must not end the process. */
export function judged<T>(answer: T): T {
  if (!(answer instanceof Promise)) return answer;
  answer.catch(() => {});
  throw new TypeError('expected an answer at once, got a promise');
}
