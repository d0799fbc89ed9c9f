import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { idempotencyKey } from '../../lib/runs/idempotency-key.js';
import { jitterDelay } from '../../lib/jobs/job-cursors.js';
import { monthsAround } from '../../lib/options/retention.js';

describe('jitter', () => {
  it('is the same for a name on every replica', () => {
    expect(jitterDelay('nightly', 30_000, 86_400_000)).toBe(jitterDelay('nightly', 30_000, 86_400_000));
    expect(jitterDelay('nightly', 30_000, null)).not.toBe(jitterDelay('hourly', 30_000, null));
  });

  it('never reaches the next fire time, nor its own limit', () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.integer({ min: 0, max: 1e6 }),
        fc.option(fc.integer({ min: 1_000, max: 1e6 })),
        (name, jitterMs, gapMs) => {
          const delay = jitterDelay(name, jitterMs, gapMs);
          expect(delay).toBeGreaterThanOrEqual(0);
          expect(delay).toBeLessThan(Math.max(1, Math.min(jitterMs, gapMs ?? jitterMs)));
        },
      ),
    );
  });

  it('spreads names over the whole of it', () => {
    const delays = Array.from({ length: 1_000 }, (_, index) => jitterDelay(`job-${index}`, 1_000, null));
    expect(delays.filter((delay) => delay < 500).length).toBeGreaterThan(400);
    expect(delays.filter((delay) => delay >= 500).length).toBeGreaterThan(400);
  });
});

describe('an idempotency key', () => {
  const run = { jobName: 'job', fireTime: new Date('2026-01-01T00:00:00Z') };

  it('is one for each effect on each entity in each occurrence, and safe in a header', () => {
    const keys = [
      idempotencyKey('secret', run, '1'),
      idempotencyKey('secret', run, '2'),
      idempotencyKey('secret', run, '1', 'mail'),
      idempotencyKey('secret', { ...run, jobName: 'other' }, '1'),
      idempotencyKey('secret', { ...run, fireTime: new Date('2026-01-01T00:00:01Z') }, '1'),
      idempotencyKey('secret', { ...run, jobName: 'job","2026' }, '1'),
    ];
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys.every((key) => /^[\w-]{43}$/.test(key))).toBe(true);
    expect(idempotencyKey('secret', { ...run }, '1', 'default')).toBe(keys[0]);
    // Who knows job, time and entity, and not the secret, cannot tell it.
    expect(keys).not.toContain(idempotencyKey('another', run, '1'));
  });
});

describe('months', () => {
  it('around an instant, across a year', () => {
    expect(
      monthsAround(new Date('2026-12-31T23:59:59Z'), 1, 2).map((month) => month.toISOString().slice(0, 10)),
    ).toEqual(['2026-11-01', '2026-12-01', '2027-01-01', '2027-02-01']);
  });
});
