import { describe, expect, it, jest } from '@jest/globals';
import { GroupCommit } from '../../lib/runs/end-writer.js';

/** A commit whose answers the test gives. */
function bench(options = { most: 100, slowAfterMs: 60_000 }) {
  const groups: { items: readonly number[]; answer: () => void; fail: (error: Error) => void }[] = [];
  const group = new GroupCommit<number, string>((items) => {
    return new Promise((resolve, reject) =>
      groups.push({ items, answer: () => resolve(items.map(String)), fail: reject }),
    );
  }, options);
  return { group, groups };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));
const turns = async () => {
  for (let count = 0; count < 3; count++) await turn();
};

describe('a group commit', () => {
  it('writes together what one turn of the event loop brings', async () => {
    const { group, groups } = bench();
    const answers = Promise.all([group.add(1), group.add(2), group.add(3)]);
    await turns();
    expect(groups.map(({ items }) => items)).toEqual([[1, 2, 3]]);
    groups[0]!.answer();
    expect(await answers).toEqual(['1', '2', '3']);
  });

  it('gathers what comes while it writes, and writes it as soon as the answer is there', async () => {
    const { group, groups } = bench();
    const first = group.add(1);
    await turns();
    const others = [group.add(2), group.add(3)];
    await turns();
    expect(groups).toHaveLength(1);
    groups[0]!.answer();
    expect(await first).toBe('1');
    await turns();
    expect(groups[1]!.items).toEqual([2, 3]);
    groups[1]!.answer();
    expect(await Promise.all(others)).toEqual(['2', '3']);
  });

  it('tells each of a group of its failure, and goes on', async () => {
    const { group, groups } = bench();
    const ends = Promise.allSettled([group.add(1), group.add(2)]);
    await turns();
    const error = new Error('gone');
    groups[0]!.fail(error);
    expect(await ends).toEqual([1, 2].map(() => ({ status: 'rejected', reason: error })));
    const next = group.add(3);
    await turns();
    groups[1]!.answer();
    expect(await next).toBe('3');
  });

  it('takes no more than so many at once', async () => {
    const { group, groups } = bench({ most: 2, slowAfterMs: 60_000 });
    const all = Promise.all([1, 2, 3].map((item) => group.add(item)));
    await turns();
    groups[0]!.answer();
    await turns();
    groups[1]!.answer();
    await all;
    expect(groups.map(({ items }) => items)).toEqual([[1, 2], [3]]);
  });

  it('G14: does not wait for an answer that does not come', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'queueMicrotask', 'nextTick'] });
    try {
      const { group, groups } = bench({ most: 100, slowAfterMs: 500 });
      void group.add(1);
      await turns();
      const second = group.add(2);
      await turns();
      expect(groups).toHaveLength(1);
      jest.advanceTimersByTime(500);
      await turns();
      groups[1]!.answer();
      expect(await second).toBe('2');
      // The late answer of the first lets nothing through that the third has to wait for.
      void group.add(3);
      await turns();
      void group.add(4);
      groups[0]!.answer();
      await turns();
      expect(groups.map(({ items }) => items)).toEqual([[1], [2], [3]]);
    } finally {
      jest.useRealTimers();
    }
  });
});
