import { beforeEach, describe, expect, it } from '@jest/globals';
import type { InFlightRuns } from '../../lib/runs/in-flight-runs.js';
import { WakeUps } from '../../lib/observe/wake-ups.js';
import { PollPace } from '../../lib/jobs/poll-pace.js';

let wakeUps: WakeUps;
let inFlight: number;
let pace: PollPace;
beforeEach(() => {
  wakeUps = new WakeUps();
  inFlight = 0;
  const runs = {
    get size() {
      return inFlight;
    },
  };
  pace = new PollPace({ pollIntervalMs: 5_000 }, wakeUps, runs as InFlightRuns);
});

describe('the pace of the polls', () => {
  it('is the poll interval as long as nobody can wake this instance up', () => {
    expect([pace.changesMs, pace.idleMs]).toEqual([5_000, 5_000]);
  });

  it('is slower while wake-ups are heard', () => {
    wakeUps.areHeard = true;
    expect([pace.changesMs, pace.idleMs]).toEqual([15_000, 30_000]);
    wakeUps.areHeard = false;
    expect([pace.changesMs, pace.idleMs]).toEqual([5_000, 5_000]);
  });

  it('is the poll interval where a handler runs that may have to be told something', () => {
    wakeUps.areHeard = true;
    inFlight = 1;
    expect(pace.changesMs).toBe(5_000);
  });
});
