import { describe, expect, it } from '@jest/globals';
import {
  GONE_FOR_MS,
  LOOK_EVERY_MS,
  firstGone,
  goneForGood,
  nextGone,
  stillGone,
  type GoneSince,
} from '../../lib/runs/fast-failover.service.js';
import { GRACE_MS, PROVE_EVERY_MS } from '../../lib/runs/liveness-proof.js';
import type { GoneRun } from '../../lib/runs/reaping.repository.js';

const NOBODY: GoneSince = new Map();
const aRun = (changes: Partial<GoneRun> = {}): GoneRun => ({
  jobName: 'job',
  fireTime: new Date(1_000),
  attempt: 1,
  instanceId: 'A',
  lifeline: '7',
  ...changes,
});

describe('a run without its owner’s lifeline', () => {
  it('is gone for good when it has been seen so for long enough, and not a millisecond earlier', () => {
    const since = stillGone(NOBODY, [aRun()], 100);
    expect(goneForGood([aRun()], since, 100 + GONE_FOR_MS - 1)).toEqual([]);
    expect(goneForGood([aRun()], since, 100 + GONE_FOR_MS)).toEqual([aRun()]);
    expect(firstGone([aRun()], since)).toBe(100);
  });

  it('keeps its time from look to look, and begins anew when it was not there at one', () => {
    const first = stillGone(NOBODY, [aRun()], 100);
    expect([...stillGone(first, [aRun()], 350).values()]).toEqual([100]);
    const back = stillGone(stillGone(first, [], 350), [aRun()], 600);
    expect([...back.values()]).toEqual([600]);
  });

  it.each<[string, Partial<GoneRun>]>([
    ['its owner has come back with another lifeline, which is gone, too', { lifeline: '8' }],
    ['it is another attempt, claimed meanwhile', { attempt: 2 }],
    ['it is another run, claimed meanwhile: its claim proves that its owner lived', { fireTime: new Date(2_000) }],
  ])('has a time of its own when %s', (_, changes) => {
    const before = stillGone(NOBODY, [aRun()], 100);
    const now = 100 + GONE_FOR_MS;
    const found = [aRun(changes)];
    const since = stillGone(before, found, now);
    expect(goneForGood(found, since, now)).toEqual([]);
    expect(nextGone(found, since, now)).toBe(now + GONE_FOR_MS);
  });

  it('is looked at again the moment it may be taken over; those that may be already are not waited for', () => {
    const [early, late] = [aRun(), aRun({ jobName: 'other' })];
    const since = stillGone(stillGone(NOBODY, [early], 0), [early, late], 200);
    expect(nextGone([early, late], since, 250)).toBe(GONE_FOR_MS);
    expect(nextGone([early, late], since, GONE_FOR_MS)).toBe(200 + GONE_FOR_MS);
    expect(nextGone([], since, 0)).toBe(Infinity);
  });
});

describe('the times', () => {
  it('abort a handler before its run is taken over, and take it over within two seconds', () => {
    expect(GONE_FOR_MS - GRACE_MS).toBeGreaterThanOrEqual(200);
    expect(GONE_FOR_MS + LOOK_EVERY_MS).toBeLessThan(2_000);
    // One proof may fail, and there is time for another.
    expect(2 * PROVE_EVERY_MS).toBeLessThan(GRACE_MS);
  });
});
