import { afterEach, describe, expect, it } from '@jest/globals';
import { Loop } from '../../lib/database/loop.js';

let loop: Loop | null = null;
const original = globalThis.setTimeout;
afterEach(async () => {
  globalThis.setTimeout = original;
  await loop?.stop();
});

/** A loop whose passes the test can wait for. */
function loopOf(pass: (count: number) => Promise<number> | number, maxSleepMs = 60_000) {
  let passes = 0;
  const failures: number[] = [];
  let recoveries = 0;
  let waiting: { count: number; resolve: () => void }[] = [];
  loop = new Loop(
    async () => {
      try {
        return await pass(++passes);
      } finally {
        const count = passes;
        waiting.filter((one) => one.count <= count).forEach((one) => setImmediate(one.resolve));
        waiting = waiting.filter((one) => one.count > count);
      }
    },
    { maxSleepMs, onFailure: (_error, count) => failures.push(count), onRecovery: () => recoveries++ },
  );
  const reached = (count: number) =>
    passes >= count ? Promise.resolve() : new Promise<void>((resolve) => waiting.push({ count, resolve }));
  return { loop, reached, failures, passes: () => passes, recoveries: () => recoveries };
}

describe('a loop', () => {
  it('runs a pass at once and again after the sleep it asked for', async () => {
    const { loop, reached } = loopOf(() => 5);
    loop.start();
    await reached(3);
  });

  it('begins when it is told, or when it is woken before', async () => {
    const { loop, reached, passes } = loopOf(() => 60_000);
    loop.start(60_000);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(passes()).toBe(0);
    loop.wakeWithin(5);
    await reached(1);
  });

  it('looks again after its longest sleep, whatever the pass asked for', async () => {
    const { loop, reached } = loopOf(() => Infinity, 10);
    loop.start();
    await reached(2);
  });

  it('B23 hands Node no longer timer than it takes, however far away the next pass is', async () => {
    const delays: unknown[] = [];
    globalThis.setTimeout = Object.assign(
      ((work: () => void, delay?: number) => {
        delays.push(delay);
        return original(work, delay);
      }) as typeof setTimeout,
      { __promisify__: original.__promisify__ },
    );
    const { loop, reached, passes } = loopOf((count) => [Infinity, 2 ** 31, 400 * 86_400_000][count - 1]!, Infinity);
    loop.start();
    for (const count of [1, 2, 3]) {
      await reached(count);
      await new Promise((resolve) => setImmediate(resolve));
      if (count < 3) loop.wake();
    }
    loop.wakeWithin(2 ** 40);
    expect(passes()).toBe(3);
    expect(delays.filter((delay) => delay === 2 ** 31 - 1)).toHaveLength(4);
    expect(delays.filter((delay) => !(Number(delay) <= 2 ** 31 - 1))).toEqual([]);
  });

  it('wakes early, and forgets no wake-up that comes during a pass', async () => {
    let wakeUp = () => {};
    const { loop, reached } = loopOf((count) => {
      if (count === 1) wakeUp();
      return 60_000;
    });
    wakeUp = () => loop.wake();
    loop.start();
    await reached(2);
    loop.wakeWithin(5);
    await reached(3);
  });

  it('is not delayed by a later wake-up', async () => {
    const { loop, reached } = loopOf(() => 20);
    loop.start();
    await reached(1);
    loop.wakeWithin(60_000);
    await reached(2);
  });

  it('trap 13: a failing pass never ends it; it tells the failures in a row and the recovery', async () => {
    const { loop, reached, failures, recoveries } = loopOf((count) => {
      if (count <= 3) throw new Error('no');
      return 60_000;
    }, 5);
    loop.start();
    await reached(4);
    expect(failures).toEqual([1, 2, 3]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(recoveries()).toBe(1);
  });

  it('stops after the pass under way, and starts none', async () => {
    let finish = () => {};
    const { loop, passes } = loopOf(() => new Promise<number>((resolve) => (finish = () => resolve(0))));
    loop.start();
    await new Promise((resolve) => setTimeout(resolve, 20));
    const stopped = loop.stop();
    finish();
    await stopped;
    loop.wake();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(passes()).toBe(1);
  });

  it.each([
    ['the longest sleep is a day', { maxSleepMs: 86_400_000 }, 1_000],
    ['the longest sleep is shorter', { maxSleepMs: 300 }, 300],
    ['what it does may wait', { maxSleepMs: 86_400_000, maxRetryMs: 60_000 }, 60_000],
  ])('waits no longer than a second after failures, however many, also where %s', async (_what, bounds, longest) => {
    const delays: number[] = [];
    const over = new Promise<void>((resolve) => {
      globalThis.setTimeout = Object.assign(
        ((work: () => void, delay = 0) => {
          delays.push(delay);
          if (delays.length === 31) resolve();
          return original(delays.length > 30 ? () => {} : work, 0);
        }) as typeof setTimeout,
        { __promisify__: original.__promisify__ },
      );
    });
    loop = new Loop(async () => Promise.reject(new Error('no')), { ...bounds, onFailure: () => {} });
    loop.start();
    await over;
    expect(Math.max(...delays)).toBeLessThanOrEqual(longest);
    expect(Math.max(...delays)).toBeGreaterThanOrEqual(0.8 * longest);
  });

  it('goes on when whoever is told of a failure, or of the recovery, throws', async () => {
    let passes = 0;
    const third = new Promise<void>((resolve) => {
      const broken = () => {
        throw new Error('listener');
      };
      loop = new Loop(
        async () => {
          passes += 1;
          if (passes === 3) resolve();
          if (passes === 1) throw new Error('pass');
          return 0;
        },
        { maxSleepMs: 10, onFailure: broken, onRecovery: broken },
      );
    });
    loop!.start();
    await third;
  });
});
