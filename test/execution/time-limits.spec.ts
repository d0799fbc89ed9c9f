import { describe, expect, it } from '@jest/globals';
import { limitsOf, STUCK_AFTER_MS } from '../../lib/runs/time-limits.js';
import type { SchedulerFact } from '../../lib/observe/scheduler-event.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { InFlightRun, InFlightRuns } from '../../lib/runs/in-flight-runs.js';
import { TimeLimits } from '../../lib/runs/time-limits.js';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { aJob } from '../support/job.js';
import { aRun } from '../support/run.js';

describe('the limits of a run', () => {
  const limits = (budgetMs: number | null, timeoutMs: number | null, stoppedAtMs: number | null = null) =>
    limitsOf({ budgetMs, timeoutMs, maxRunTimeMs: 60_000 }, stoppedAtMs).map(({ limit, atMs }) => [limit, atMs]);

  it.each<[string, [number | null, number | null, (number | null)?], [string, number][]]>([
    ['without budget and timeout', [null, null], [['maxRunTime', 60_000]]],
    [
      'with a budget, past which it may be stuck',
      [1_000, null],
      [
        ['budget', 1_000],
        ['stuck', 1_000 + STUCK_AFTER_MS],
        ['maxRunTime', 60_000],
      ],
    ],
    [
      'with a timeout, which tells whether it is',
      [1_000, 9_000],
      [
        ['budget', 1_000],
        ['timeout', 9_000],
        ['maxRunTime', 60_000],
      ],
    ],
    [
      'that was told to stop',
      [1_000, 9_000, 9_010],
      [
        ['budget', 1_000],
        ['timeout', 9_000],
        ['stuck', 9_010 + STUCK_AFTER_MS],
        ['maxRunTime', 60_000],
      ],
    ],
    [
      'that was told to stop before its budget',
      [20_000, null, 500],
      [
        ['stuck', 500 + STUCK_AFTER_MS],
        ['budget', 20_000],
        ['maxRunTime', 60_000],
      ],
    ],
  ])('%s', (_name, given, expected) => {
    expect(limits(...given)).toEqual(expected);
  });
});

/** A run whose handler began so many milliseconds ago. */
function running(ageMs: number, policies: Partial<JobDefinition>) {
  const events = new SchedulerEvents();
  const told: SchedulerFact[] = [];
  events.subscribe((event) => told.push(event));
  const runs = new InFlightRuns(events);
  const run = new InFlightRun(aRun(), aJob('job', '* * * * *', policies));
  Object.assign(run, { startedAt: run.startedAt - ageMs });
  runs.add(run);
  const time = new TimeLimits(runs, events);
  return { run, runs, time, types: () => told.map(({ type }) => type), told };
}

describe('a run that takes', () => {
  it('less than its limits is left alone, and looked at when the first is reached', () => {
    const { run, time, types } = running(200, { budgetMs: 1_000, timeoutMs: 2_000 });
    expect(time.check()).toBeLessThanOrEqual(800);
    expect(types()).toEqual([]);
    expect(run.signal.aborted).toBe(false);
  });

  it('longer than its budget is told of once, and goes on', () => {
    const { run, time, told } = running(1_100.13, { budgetMs: 1_000, timeoutMs: 20_000 });
    time.check();
    time.check();
    expect(told).toEqual([
      expect.objectContaining({ type: 'run.overBudget', jobName: 'job', attempt: 1, budgetMs: 1_000 }),
    ]);
    expect((told[0] as { runningMs: number }).runningMs % 1).toBe(0);
    expect(run.signal.aborted).toBe(false);
  });

  it('so much longer, without a timeout, is stuck, once', () => {
    const { time, types } = running(1_000 + STUCK_AFTER_MS, { budgetMs: 1_000 });
    time.check();
    time.check();
    expect(types()).toEqual(['run.overBudget', 'run.stuck']);
  });

  it('longer than its timeout is told to stop, and is stuck when it does not', () => {
    const { run, time, types, told } = running(2_100, { timeoutMs: 2_000 });
    time.check();
    expect(types()).toEqual(['run.timedOut']);
    expect(run.signal.reason).toMatchObject({
      name: 'TimeoutError',
      limit: 'timeout',
      limitMs: 2_000,
      message: expect.stringContaining('has run for its timeout of 2s'),
    });
    Object.assign(run, { startedAt: run.startedAt - STUCK_AFTER_MS, stoppedAt: run.startedAt - STUCK_AFTER_MS });
    time.check();
    time.check();
    expect(types()).toEqual(['run.timedOut', 'run.stuck']);
    expect(told[1]).toMatchObject({ told: true });
  });

  it('longer than its maxRunTime is told to stop; without its lease it is given up', () => {
    const { run, runs, time, types } = running(3_100, { maxRunTimeMs: 3_000 });
    time.check();
    expect(run.signal.reason).toMatchObject({ name: 'TimeoutError', limit: 'maxRunTime' });
    expect(runs.size).toBe(1);
    runs.lose(run, 'ran too long');
    time.check();
    expect(runs.size).toBe(0);
    expect(types()).toEqual(['run.timedOut', 'lease.lost', 'run.abandoned']);
  });

  it('any time is nothing to a handler that has ended: its end is being written', () => {
    const { run, time, types } = running(9_000, { budgetMs: 1_000, timeoutMs: 2_000, maxRunTimeMs: 3_000 });
    run.ending = true;
    expect(time.check()).toBe(Infinity);
    expect(types()).toEqual([]);
    expect(run.signal.aborted).toBe(false);
  });

  it('a lost run is waited for until its maxRunTime', () => {
    const { run, runs, time } = running(1_000, { budgetMs: 500, maxRunTimeMs: 3_000 });
    runs.lose(run, 'expired');
    expect(time.check()).toBeGreaterThan(1_900);
    expect(runs.size).toBe(1);
  });
});

describe('a run that is done while its handler goes on', () => {
  const woundUpFor = (ageMs: number, policies: Partial<JobDefinition>) => {
    const made = running(ageMs, policies);
    made.run.settled = true;
    return made;
  };

  it('has no budget any more', () => {
    const { time, types } = woundUpFor(1_000 + STUCK_AFTER_MS, { budgetMs: 1_000 });
    time.check();
    expect(types()).toEqual([]);
  });

  it('is told to stop by its timeout, and given up after its maxRunTime', () => {
    const { run, runs, time, types } = woundUpFor(2_100, { timeoutMs: 2_000, maxRunTimeMs: 3_000 });
    expect(time.check()).toBeLessThanOrEqual(900);
    expect([types(), run.signal.aborted]).toEqual([['run.timedOut'], true]);
    Object.assign(run, { startedAt: run.startedAt - 1_000 });
    time.check();
    expect([types().at(-1), runs.size]).toEqual(['run.abandoned', 0]);
  });

  it('is not cancelled', () => {
    const { run } = woundUpFor(0, {});
    run.cancel('wrong month');
    expect(run.signal.aborted).toBe(false);
  });
});
