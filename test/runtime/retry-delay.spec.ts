import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { retryDelay } from '../../lib/database/retry.js';

afterEach(() => void jest.restoreAllMocks());

const drawn = (random: number) => jest.spyOn(Math, 'random').mockReturnValue(random);

describe('the wait after failures in a row', () => {
  it('begins with a tenth of a second, doubles, and goes no further than the longest', () => {
    drawn(1);
    expect([1, 2, 3, 4, 5, 6, 7, 1_000].map((failures) => Math.round(retryDelay(failures, 5_000)))).toEqual([
      100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000,
    ]);
  });

  it('is a second at most, unless something else is said: what waits for the database goes on within a second after it is back', () => {
    drawn(1);
    expect([4, 5, 1_000].map((failures) => Math.round(retryDelay(failures)))).toEqual([800, 1_000, 1_000]);
  });

  it('is up to a fifth shorter, so that what failed together does not come back together', () => {
    drawn(0);
    expect(retryDelay(3, 5_000)).toBe(320);
    drawn(0.5);
    expect(retryDelay(30, 5_000)).toBe(4_500);
  });
});
