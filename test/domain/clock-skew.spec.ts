import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { judgeSkew } from '../../lib/database/clock.js';

const MAX = 5_000;

describe('what is told about a clock', () => {
  it.each([
    // skew, uncertainty, told before → told now
    [0, 1, null, null],
    [5_000, 0, null, null],
    [5_001, 0, null, 'skewed'],
    [-5_001, 0, null, 'skewed'],
    // The reading may be wrong by more than it is past the limit.
    [9_000, 4_000, null, null],
    [9_001, 4_000, null, 'skewed'],
    [3_600_000, 2_000, null, 'skewed'],
    // Told already.
    [6_000, 1, 6_000, null],
    [11_999, 1, 6_000, null],
    [4_500, 1, 6_000, null],
    // Over, when it is clearly over.
    [4_001, 0, 6_000, null],
    [4_000, 0, 6_000, 'agrees'],
    [-3_999, 1, -6_000, 'agrees'],
    [0, 4_500, 6_000, null],
    // Worse by far, or on the other side.
    [12_002, 1, 6_000, 'skewed'],
    [-6_000, 1, 6_000, 'skewed'],
    [-4_500, 1, 6_000, null],
  ] as const)('%i ms ± %i, told %s: %s', (skewMs, uncertaintyMs, told, verdict) => {
    expect(judgeSkew({ skewMs, uncertaintyMs }, MAX, told)).toBe(verdict);
  });

  it('is never the same twice in a row, and nothing while the skew wavers around the limit', () => {
    const wavering = fc.array(fc.double({ min: 4_001, max: 9_999, noNaN: true }), { maxLength: 50 });
    fc.assert(
      fc.property(wavering, (skews) => {
        let told: number | null = null;
        const verdicts: string[] = [];
        for (const skewMs of skews) {
          const verdict = judgeSkew({ skewMs, uncertaintyMs: 0 }, MAX, told);
          if (verdict) verdicts.push(verdict);
          if (verdict) told = verdict === 'skewed' ? skewMs : null;
        }
        expect(verdicts).toEqual(skews.some((skew) => skew > MAX) ? ['skewed'] : []);
      }),
    );
  });
});
