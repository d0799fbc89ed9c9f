import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { DueQueue } from '../../lib/jobs/due-queue.js';

/** Few keys and instants, so that they meet: a key is moved, taken out and put in again, and many are due together. */
const key = fc.integer({ min: 0, max: 30 });
const instant = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.constant(Infinity));
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ set: key, at: instant }) },
  { weight: 1, arbitrary: fc.record({ remove: key }) },
);

describe('a queue of what is due', () => {
  it('says what sorting all of it would say, whatever was put in, moved and taken out', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), fc.integer({ min: -1, max: 21 }), (steps, now) => {
        const queue = new DueQueue<number>();
        const model = new Map<number, number>();
        for (const one of steps) {
          if ('set' in one) {
            queue.set(one.set, one.at);
            model.set(one.set, one.at);
          } else {
            queue.delete(one.remove);
            model.delete(one.remove);
          }
          const sorted = [...model.values()].sort((a, b) => a - b);
          const due = queue.due(now);
          expect(due.map((found) => model.get(found))).toEqual(sorted.filter((at) => at <= now));
          expect(new Set(due).size).toBe(due.length);
          expect(queue.nextAfter(now)).toBe(sorted.find((at) => at > now) ?? Infinity);
          expect(queue.nextAfter(-Infinity)).toBe(sorted[0] ?? Infinity);
          expect(queue.size).toBe(model.size);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('looks at a few of many when few are due', () => {
    const queue = new DueQueue<number>();
    let compared = 0;
    /** An instant that counts how often it is read. */
    const counted = (at: number) => ({ valueOf: () => ((compared += 1), at) }) as unknown as number;
    for (let index = 0; index < 10_000; index++) queue.set(index, counted(index));
    compared = 0;
    expect(queue.due(4)).toHaveLength(5);
    expect(queue.nextAfter(4).valueOf()).toBe(5);
    expect(compared).toBeLessThan(100);
  });
});
