import { describe, expect, it } from '@jest/globals';
import { forEachSettled } from '../../lib/database/collections.js';

describe('forEachSettled', () => {
  const acted: number[] = [];
  const act = async (item: number) => {
    acted.push(item);
    if (item % 2 === 0) throw new Error(`trouble of ${item}`);
  };

  it('gives each its turn, and tells of the first trouble afterwards', async () => {
    acted.length = 0;
    await expect(forEachSettled([1, 2, 3, 4, 5], () => false, act)).rejects.toThrow('trouble of 2');
    expect(acted).toEqual([1, 2, 3, 4, 5]);
  });

  it('leaves out those after the end, and still tells of trouble', async () => {
    acted.length = 0;
    await expect(forEachSettled([1, 2, 3, 4], () => acted.length === 3, act)).rejects.toThrow('trouble of 2');
    expect(acted).toEqual([1, 2, 3]);
  });
});
