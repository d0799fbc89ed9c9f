import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { GivenUpRuns } from '../../lib/runs/fast-failover.service.js';
import type { AttemptFacts } from '../../lib/observe/run-event.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';

const RUN: AttemptFacts = { jobName: 'job', fireTime: new Date(1_000), attempt: 2 };

let asked: (readonly AttemptFacts[])[];
let answer: (runs: readonly AttemptFacts[]) => Promise<readonly AttemptFacts[]>;
let givenUp: GivenUpRuns;

beforeEach(() => {
  jest.useFakeTimers();
  asked = [];
  answer = async (runs) => runs;
  givenUp = new GivenUpRuns(
    { giveUp: (runs: readonly AttemptFacts[]) => (asked.push(runs), answer(runs)) } as never,
    new SchedulerEvents(),
    'me',
  );
  givenUp.start();
});
afterEach(async () => {
  await givenUp.stop();
  jest.useRealTimers();
});

describe('a run that is given up', () => {
  it('has its lease ended once, a moment after its handler was told to stop', async () => {
    givenUp.add(RUN);
    await jest.advanceTimersByTimeAsync(100);
    expect(asked).toEqual([]);
    await jest.advanceTimersByTimeAsync(60_000);
    expect(asked).toEqual([[RUN]]);
  });

  it('is tried again while the database is away, however long', async () => {
    answer = () => Promise.reject(new Error('no'));
    givenUp.add(RUN);
    await jest.advanceTimersByTimeAsync(3_600_000);
    expect(asked.length).toBeGreaterThan(100);
    answer = async (runs) => runs;
    const before = asked.length;
    await jest.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(before + 1);
  });

  it('is let go when the answer says again and again that there was nothing to end', async () => {
    answer = async () => [];
    givenUp.add(RUN);
    await jest.advanceTimersByTimeAsync(600_000);
    expect(asked).toHaveLength(10);
  });
});
