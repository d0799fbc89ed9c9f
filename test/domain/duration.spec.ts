import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Duration, formatDuration, parseDuration } from '../../lib/options/duration.js';

describe('parseDuration', () => {
  it.each<[unknown, number]>([
    [0, 0],
    [30_000, 30_000],
    ['250ms', 250],
    ['30s', 30_000],
    ['2m', 120_000],
    ['1.5h', 5_400_000],
    [' 24h ', 86_400_000],
    ['7d', 604_800_000],
    ['2 minutes', 120_000],
  ])('%j is %d ms', (given, millis) => {
    expect(parseDuration(given)).toBe(millis);
  });

  it.each([
    ['a word', 'soon'],
    ['nothing', ''],
    ['a number without a unit', '30'],
    ['a unit alone', 's'],
    ['an unknown unit', '3 fortnights'],
    ['two parts', '1h 30m'],
    ['a negative text', '-5s'],
    ['a negative number', -1],
    ['a fraction of a millisecond', 1.5],
    ['a fraction of a millisecond as a text', '0.5ms'],
    ['not a number', Number.NaN],
    ['infinity', Infinity],
    ['null', null],
    ['undefined', undefined],
    ['an object', { seconds: 3 }],
    ['true', true],
    ['a bigint', 5n],
  ])('refuses %s', (_, given) => {
    expect(parseDuration(given)).toBeNull();
  });
});

describe('formatDuration', () => {
  it.each<[number, string]>([
    [0, '0ms'],
    [999, '999ms'],
    [1_000, '1s'],
    [60_000, '1m'],
    [90_000, '1m30s'],
    [86_400_000, '1d'],
    [90_061_001, '1d1h1m1s1ms'],
  ])('%d ms is %s', (millis, text) => {
    expect(formatDuration(millis)).toBe(text);
  });

  it('is exact: its parts add up to what it was given', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10 ** 12 }), (millis) => {
        const parts = formatDuration(millis).match(/\d+(?:ms|[dhms])/g)!;
        expect(parts.reduce((sum, part) => sum + parseDuration(part)!, 0)).toBe(millis);
      }),
    );
  });
});

describe('the type of a duration', () => {
  it('takes what is read, and refuses a text without a unit that is known', () => {
    const taken: readonly Duration[] = [1_500, '100ms', '1.5s', '5 minutes', '1h', '2 hrs', '7d', '1w', '1 year'];
    for (const duration of taken) expect(parseDuration(duration)).not.toBeNull();
    // @ts-expect-error no unit
    const [noUnit, noNumber, unknownUnit]: [Duration, Duration, Duration] = ['30', 's', '3 moons'];
    for (const duration of [noUnit, noNumber, unknownUnit]) expect(parseDuration(duration)).toBeNull();
  });
});
