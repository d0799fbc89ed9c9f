import { describe, expect, it } from '@jest/globals';
import type { Backoff } from '../../lib/domain/job-definition.js';
import { decideOutcome } from '../../lib/domain/outcome.js';
import { decideRetry } from '../../lib/domain/retry.js';

const FIXED: Backoff = { kind: 'fixed', delayMs: 500 };
const GROWING: Backoff = { kind: 'exponential', delayMs: 1_000, maxMs: 10_000 };
const asked = (delay: (failed: number) => number): Backoff => ({ kind: 'function', delay });

describe('G7 retries', () => {
  it.each<[string, Backoff, number, number, number]>([
    ['a fixed wait', FIXED, 4, 0, 500],
    ['a growing wait starts with its delay', GROWING, 1, 0, 1_000],
    ['and doubles', GROWING, 3, 0, 4_000],
    ['up to its maximum', GROWING, 9, 0, 10_000],
    ['plus up to a fifth of jitter', GROWING, 1, 1, 1_200],
    ['even after thousands of attempts', GROWING, 5_000, 0, 10_000],
    ['a function is asked with the number of failures', asked((failed) => failed * 7), 3, 0, 21],
    ['a negative answer is no wait', asked(() => -5), 1, 0, 0],
    ['nor is one that is not a number', asked(() => NaN), 1, 0, 0],
    ['an endless one is none either', asked(() => Infinity), 1, 0, 0],
    ['a fraction is rounded', asked(() => 1.6), 1, 0, 2],
    ['what no timestamp holds is cut', asked(() => 1e18), 1, 0, 10 * 365 * 86_400_000],
  ])('%s', (_name, backoff, counted, random, delayMs) => {
    expect(decideRetry({ maxAttempts: 10_000, backoff }, counted, random)).toEqual({ retry: true, delayMs });
  });

  it.each([
    [1, 1, false],
    [3, 2, true],
    [3, 3, false],
    [3, 4, false],
  ])('of %i attempts, after %i: another one is %p', (maxAttempts, counted, retry) => {
    expect(decideRetry({ maxAttempts, backoff: FIXED }, counted, 0).retry).toBe(retry);
  });
});

describe('the outcome of a handler', () => {
  const error = { name: 'Error', message: 'no', stack: null };
  const policies = { maxAttempts: 2, backoff: FIXED };

  it.each([
    [{ kind: 'returned' as const }, 1, { kind: 'done' }],
    [{ kind: 'stopped' as const }, 2, { kind: 'released' }],
    [{ kind: 'threw' as const, error }, 1, { kind: 'retry', error, delayMs: 500 }],
    [{ kind: 'threw' as const, error }, 2, { kind: 'dead', error }],
  ])('%j at attempt %i', (end, counted, outcome) => {
    expect(decideOutcome(end, policies, counted, 0)).toEqual(outcome);
  });
});
