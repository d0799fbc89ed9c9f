import { describe, expect, it, jest } from '@jest/globals';
import { readFailure, type Wish } from '../../lib/runs/outcome.js';
import type { Backoff, RetryableFunction } from '../../lib/options/job-definition.js';
import { decideEnd, DONE, type HandlerEnd, type RunEnd } from '../../lib/runs/outcome.js';
import { decideRetry } from '../../lib/runs/outcome.js';
import { InvalidOptionsError } from '../../lib/errors/errors.js';
import { RetryLater } from '../../lib/runs/outcome.js';
import { GiveUp } from '../../lib/errors/run.errors.js';

const RETRY = { kind: 'retry' } as const;
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
    expect(decideRetry({ maxAttempts: 10_000, backoff }, RETRY, counted, random)).toEqual({ retry: true, delayMs });
  });

  it.each([
    [1, 1, false],
    [3, 2, true],
    [3, 3, false],
    [3, 4, false],
  ])('of %i attempts, after %i: another one is %p', (maxAttempts, counted, retry) => {
    expect(decideRetry({ maxAttempts, backoff: FIXED }, RETRY, counted, 0).retry).toBe(retry);
  });
});

describe('what a handler threw', () => {
  const NOW = Date.parse('2026-03-10T10:00:00Z');
  const wish = (thrown: unknown, retryable: RetryableFunction | null = null) =>
    readFailure(thrown, retryable, NOW).wish;

  it.each<[string, unknown, RetryableFunction | null, object]>([
    ['an error is retried', new Error('no'), null, { kind: 'retry' }],
    ['also one that retryable finds so', new Error('no'), () => true, { kind: 'retry' }],
    [
      'one that it does not is the end',
      new Error('no'),
      (error) => !(error instanceof Error),
      { kind: 'end', reason: 'not retryable' },
    ],
    [
      'what it answers beside true and false is no answer',
      new Error('no'),
      () => undefined as never,
      { kind: 'retry' },
    ],
    [
      'GiveUp is the end, with its reason',
      new GiveUp('no such customer'),
      null,
      { kind: 'end', reason: 'gave up: no such customer' },
    ],
    [
      'whatever retryable says',
      new GiveUp('no such customer'),
      () => true,
      { kind: 'end', reason: 'gave up: no such customer' },
    ],
    ['RetryLater says in how long', new RetryLater('5m'), null, { kind: 'later', inMs: 300_000 }],
    ['or when', new RetryLater(new Date(NOW + 1_000)), () => false, { kind: 'later', inMs: 1_000 }],
    [
      'an object that throws when it is looked at is retried',
      new Proxy(
        {},
        {
          getPrototypeOf: () => {
            throw new Error('trap');
          },
        },
      ),
      null,
      { kind: 'retry' },
    ],
  ])('%s', (_name, thrown, retryable, expected) => {
    expect(wish(thrown, retryable)).toEqual(expected);
  });

  it('is retried and told when retryable throws, or answers with a promise, whose failure ends no process', async () => {
    const failing = () => {
      throw new RangeError('my own bug');
    };
    expect(readFailure(new Error('no'), failing, NOW)).toMatchObject({
      error: { message: 'no' },
      wish: RETRY,
      complaint: { name: 'RangeError', message: 'my own bug' },
    });
    const unhandled = jest.fn();
    process.once('unhandledRejection', unhandled);
    const late = (() => Promise.reject(new Error('late'))) as never;
    expect(readFailure(new Error('no'), late, NOW)).toMatchObject({
      wish: RETRY,
      complaint: { message: 'expected an answer at once, got a promise' },
    });
    expect(() => decideRetry({ maxAttempts: 3, backoff: asked(late) }, RETRY, 1, 0)).toThrow('got a promise');
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });

  it.each([['soon'], [-1], [NaN], [new Date(NaN)], [undefined]])('RetryLater is refused with %p', (at) => {
    expect(() => new RetryLater(at as never)).toThrow(InvalidOptionsError);
  });
});

describe('the outcome of a handler', () => {
  const error = { name: 'Error', message: 'no', stack: null };
  const policies = { maxAttempts: 2, backoff: FIXED };
  const failed = (wish: Wish): HandlerEnd => ({ kind: 'failed', error, wish });

  it.each<[HandlerEnd, number, Partial<RunEnd>]>([
    [{ kind: 'returned' }, 1, { status: 'done' }],
    [
      { kind: 'stopped' },
      2,
      { status: 'queued', reason: 'released by a stopping instance', retryInMs: 0, releases: 1 },
    ],
    [{ kind: 'cancelled', reason: 'wrong month' }, 1, { status: 'cancelled', reason: 'wrong month' }],
    [failed(RETRY), 1, { status: 'failed', error, retryInMs: 500 }],
    [failed(RETRY), 2, { status: 'dead', error, reason: 'attempts used up' }],
    [failed({ kind: 'later', inMs: 60_000 }), 1, { status: 'failed', error, retryInMs: 60_000 }],
    [failed({ kind: 'later', inMs: -60_000 }), 1, { status: 'failed', error, retryInMs: 0 }],
    [failed({ kind: 'later', inMs: 1e18 }), 1, { status: 'failed', error, retryInMs: 10 * 365 * 86_400_000 }],
    [failed({ kind: 'later', inMs: 60_000 }), 2, { status: 'dead', error, reason: 'attempts used up' }],
    [failed({ kind: 'end', reason: 'gave up: no' }), 1, { status: 'dead', error, reason: 'gave up: no' }],
  ])('%j at attempt %i', (end, counted, outcome) => {
    expect(decideEnd(end, policies, counted, 0)).toEqual({ ...DONE, ...outcome });
  });
});
