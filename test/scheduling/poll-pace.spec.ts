import { beforeEach, describe, expect, it } from '@jest/globals';
import { WakeUps } from '../../lib/observe/wake-ups.js';
import { PollPace } from '../../lib/jobs/schedule-follower.service.js';

let wakeUps: WakeUps;
let pace: PollPace;
beforeEach(() => {
  wakeUps = new WakeUps();
  pace = new PollPace({ pollIntervalMs: 5_000 }, wakeUps);
});

describe('the pace of the polls', () => {
  it('is the poll interval as long as nobody can wake this instance up', () => {
    expect([pace.changesMs(false), pace.idleMs]).toEqual([5_000, 5_000]);
  });

  it('is slower while wake-ups are heard', () => {
    wakeUps.areHeard = true;
    expect([pace.changesMs(false), pace.idleMs]).toEqual([15_000, 30_000]);
    wakeUps.areHeard = false;
    expect([pace.changesMs(false), pace.idleMs]).toEqual([5_000, 5_000]);
  });

  it('is the poll interval where a handler runs that may have to be told something', () => {
    wakeUps.areHeard = true;
    expect(pace.changesMs(true)).toBe(5_000);
  });
});
