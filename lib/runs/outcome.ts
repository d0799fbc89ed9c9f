import { InvalidOptionsError, occurrence, type Occurrence, SchedulerError } from '../errors/errors.js';
import { GiveUp } from '../errors/run.errors.js';
import { atOnce, isPromise } from '../observe/own-logger.js';
import { describeError, plainError, plainText, type StoredError } from '../errors/stored-error.js';
import { type Duration, formatDuration, parseDuration } from '../options/duration.js';
import type { Backoff, JobPolicies, RetryableFunction } from '../options/job-definition.js';

/**
 * Thrown by a handler: the attempt has failed, and the next one is to be made then, whatever the job's `backoff` says.
 * It counts as an attempt; after the last one the run is dead all the same.
 */
export class RetryLater extends SchedulerError {
  /**
   * @param at an instant, or how long from now; what has passed already is at once, and what is more than ten years
   * away is in ten years
   * @throws InvalidOptionsError when it is neither
   */
  constructor(
    readonly at: Date | Duration,
    message?: string,
    options?: ErrorOptions,
  ) {
    const readable = at instanceof Date ? !Number.isNaN(at.getTime()) : parseDuration(at) !== null;
    if (!readable)
      throw new InvalidOptionsError([`RetryLater: expected a Date or a duration such as "5m", got ${String(at)}.`]);
    super(
      'retry-later',
      message ?? `to be tried again ${at instanceof Date ? `at ${at.toISOString()}` : `in ${String(at)}`}`,
      options,
    );
  }
}

/**
 * The handler has taken as long as its job allows: its signal is aborted, and the attempt fails with this when it ends.
 */
export class TimeoutError extends SchedulerError {
  constructor(
    run: Occurrence & { readonly attempt: number },
    /** The option whose time is over. */
    readonly limit: 'timeout' | 'maxRunTime',
    /** How long that is, in milliseconds. */
    readonly limitMs: number,
  ) {
    super(
      'timeout',
      `${occurrence(run)} (attempt ${run.attempt}) has run for its ${limit} of ${formatDuration(limitMs)}.`,
    );
  }
}

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
  if (!isPromise(atOnce(answer))) return answer;
  throw new TypeError('expected an answer at once, got a promise');
}

/** What becomes of a run whose attempt failed. */
export type RetryDecision =
  | { readonly retry: true; readonly delayMs: number }
  | { readonly retry: false; readonly reason: string };

/** The longest wait that code may ask for: ten years, far inside what a timestamp holds. */
const LONGEST_BACKOFF_MS = 10 * 365 * 86_400_000;

/**
 * Decides whether a failed attempt is followed by another.
 * @param wish what the error asks for
 * @param counted attempts that count so far, the failed one included: hand-overs of stopping instances do not
 * @param random 0 to 1, for the jitter of a growing backoff
 */
export function decideRetry(
  policy: { maxAttempts: number; backoff: Backoff },
  wish: Wish,
  counted: number,
  random: number,
): RetryDecision {
  if (wish.kind === 'end') return { retry: false, reason: wish.reason };
  if (counted >= policy.maxAttempts) return { retry: false, reason: 'attempts used up' };
  return {
    retry: true,
    delayMs: wish.kind === 'later' ? bounded(wish.inMs) : backoffMs(policy.backoff, counted, random),
  };
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

/** How a handler ended. */
export type HandlerEnd =
  | { readonly kind: 'returned' }
  | ({ readonly kind: 'failed' } & Failure)
  /** It returned or threw after its signal was aborted because the application stops. */
  | { readonly kind: 'stopped' }
  /** It returned or threw after its run was cancelled. */
  | { readonly kind: 'cancelled'; readonly reason: string };

/** How an attempt ends, as it is written. */
export interface RunEnd {
  readonly status: 'done' | 'failed' | 'dead' | 'queued' | 'cancelled';
  /** For people; null when the error says it all. */
  readonly reason: string | null;
  readonly error: StoredError | null;
  /** Milliseconds from now to the next attempt; null when there is none. */
  readonly retryInMs: number | null;
  /** 1 when the attempt was handed back and does not count. */
  readonly releases: 0 | 1;
}

export const DONE: RunEnd = { status: 'done', reason: null, error: null, retryInMs: null, releases: 0 };

/** Handed back: another instance starts it at once, and the attempt does not count. */
export function released(reason = 'released by a stopping instance'): RunEnd {
  return { ...DONE, status: 'queued', reason, retryInMs: 0, releases: 1 };
}

/**
 * Decides what becomes of a run whose handler has ended.
 * @param counted attempts that count so far, this one included
 * @param random 0 to 1, for the backoff's jitter
 */
export function decideEnd(
  end: HandlerEnd,
  policies: Pick<JobPolicies, 'maxAttempts' | 'backoff'>,
  counted: number,
  random: number,
): RunEnd {
  switch (end.kind) {
    case 'returned':
      return DONE;
    case 'stopped':
      return released();
    case 'cancelled':
      return { ...DONE, status: 'cancelled', reason: end.reason };
    case 'failed': {
      const { error, wish } = end;
      const decision = decideRetry(policies, wish, counted, random);
      return decision.retry
        ? { ...DONE, status: 'failed', error, retryInMs: Math.round(decision.delayMs) }
        : { ...DONE, status: 'dead', error, reason: decision.reason };
    }
  }
}

/** Of a reason that was refused as it was, in characters. */
const LONGEST_REASON = 500;

/** A backoff that was refused as it was, in milliseconds: a hundred years. */
const LONGEST_RETRY_MS = 100 * 365 * 86_400_000;

/** How an attempt ended, in a form that every database accepts: for one that was refused as it was. */
export function plainEnd(end: RunEnd): RunEnd {
  const { reason, error, retryInMs } = end;
  return {
    ...end,
    reason: reason && plainText(reason, LONGEST_REASON),
    error: error && plainError(error),
    retryInMs: retryInMs && Math.min(retryInMs, LONGEST_RETRY_MS),
  };
}
