import { describe, expect, it } from '@jest/globals';
import { outageEnds, outageGoesOn, type Outage } from '../../lib/maintenance/watches.service.js';

/** What is told as passes fail, and go well, at these seconds. */
function told(...steps: [second: number, loop: string, went: 'fails' | 'works'][]): string[] {
  let outage: Outage | null = null;
  return steps.flatMap(([second, loop, went]) => {
    const step = went === 'fails' ? outageGoesOn(outage, loop, second * 1_000) : outageEnds(outage, loop);
    const since = (step.outage ?? outage)?.since;
    outage = step.outage;
    return step.news ? [`${step.news} since ${since! / 1_000}`] : [];
  });
}

describe('an outage', () => {
  it('is told once, when it has lasted ten seconds, and when it is over', () => {
    expect(
      told(
        [1, 'ticker', 'fails'],
        [2, 'reaper', 'fails'],
        [10.9, 'ticker', 'fails'],
        [11, 'reaper', 'fails'],
        [16, 'ticker', 'fails'],
        [20, 'ticker', 'works'],
        [21, 'reaper', 'works'],
      ),
    ).toEqual(['unreachable since 1', 'reachable since 1']);
  });

  it('that passes in less is told to nobody', () => {
    expect(
      told(
        [1, 'ticker', 'fails'],
        [9, 'ticker', 'fails'],
        [10, 'ticker', 'works'],
        [15, 'ticker', 'fails'],
        [24, 'ticker', 'fails'],
      ),
    ).toEqual([]);
  });

  it('is not over because a loop works that asks the database nothing', () => {
    expect(told([1, 'ticker', 'fails'], [5, 'clock watch', 'works'], [11, 'ticker', 'fails'])).toEqual([
      'unreachable since 1',
    ]);
  });

  it('is another one when nothing failed for minutes', () => {
    expect(told([1, 'ending of a run', 'fails'], [3_000, 'ticker', 'fails'], [3_010, 'ticker', 'fails'])).toEqual([
      'unreachable since 3000',
    ]);
  });
});
