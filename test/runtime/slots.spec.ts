import { describe, expect, it } from '@jest/globals';
import { Slots } from '../../lib/database/collections.js';

describe('slots', () => {
  it('let so many go on at a time, the others in the order they came, whatever fails', async () => {
    const slots = new Slots(2);
    const begun: number[] = [];
    let under = 0;
    let most = 0;
    const work = (name: number) =>
      slots.run(async () => {
        begun.push(name);
        most = Math.max(most, (under += 1));
        await new Promise((resolve) => setImmediate(resolve));
        under -= 1;
        if (name === 1) throw new Error('no');
        return name;
      });
    const results = await Promise.allSettled([0, 1, 2, 3, 4, 5].map(work));
    expect(results.map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'fulfilled',
    ]);
    expect(begun).toEqual([0, 1, 2, 3, 4, 5]);
    expect(most).toBe(2);
  });
});
