import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { FastFailoverService, GONE_FOR_MS, LOOK_EVERY_MS } from '../../lib/runs/fast-failover.service.js';
import type { GoneRun } from '../../lib/runs/reaping.repository.js';
import type { SchedulerFact } from '../../lib/observe/scheduler-event.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';

const NOW = 1_000_000;
const GONE: GoneRun = { jobName: 'job', fireTime: new Date(NOW), attempt: 1, instanceId: 'A', lifeline: '7' };

let others: { run: boolean; gone: GoneRun[] };
let looks: number;
let taken: GoneRun[];
let woken: number;
let told: SchedulerFact[];
let nextDueAt: number;
let service: FastFailoverService;

/** The monotonic clock, and with it all timers. */
const pass = (millis: number) => jest.advanceTimersByTimeAsync(millis);

afterEach(() => void jest.useRealTimers());
beforeEach(() => {
  jest.useFakeTimers();
  others = { run: false, gone: [] };
  looks = 0;
  taken = [];
  woken = 0;
  told = [];
  nextDueAt = NOW + 60_000;
  const events = new SchedulerEvents();
  events.subscribe((event) => told.push(event));
  const store = {
    ownersGone: async () => ((looks += 1), others),
    takeOver: async (runs: GoneRun[]) => (
      taken.push(...runs), runs.map(({ instanceId, ...run }) => ({ ...run, claimedBy: instanceId }))
    ),
  };
  const cursors = {
    get nextDueAt() {
      return nextDueAt;
    },
  };
  const reaper = { wake: () => (woken += 1), whenRunsAreSeen: () => {} };
  const known = { get: (name: string) => (name === 'job' ? {} : undefined) };
  service = new FastFailoverService(
    { fastFailover: true } as never,
    'me',
    store as never,
    reaper as never,
    known as never,
    cursors as never,
    { now: () => NOW } as never,
    events,
  );
});

describe('whoever would take over', () => {
  it('G15 asks nothing while nothing is due and nobody was seen to run, and sleeps until something is due', async () => {
    expect(await service.look()).toBe(60_000 + LOOK_EVERY_MS);
    expect(looks).toBe(0);
  });

  it('looks when something has come due, and stops when nothing is under way', async () => {
    nextDueAt = NOW;
    await service.look();
    nextDueAt = NOW + 60_000;
    expect(await service.look()).toBe(LOOK_EVERY_MS);
    expect(looks).toBe(1);
    await pass(1_050);
    await service.look();
    expect(looks).toBe(1);
  });

  it('looks when the reaper has seen runs, and goes on while others run', async () => {
    service.attend();
    others = { run: true, gone: [] };
    await service.look();
    await pass(1_050);
    expect(await service.look()).toBeGreaterThan(LOOK_EVERY_MS);
    service.attend();
    for (let time = 0; time < 3; time++) {
      expect(await service.look()).toBe(LOOK_EVERY_MS);
      await pass(400);
    }
    expect(looks).toBe(4);
  });

  it('takes a run over when it was without its owner for long enough, tells of it and wakes the reaper', async () => {
    service.attend();
    others = { run: true, gone: [GONE] };
    for (let waited = 0; waited < GONE_FOR_MS; ) {
      const sleep = await service.look();
      expect(taken).toEqual([]);
      expect(sleep).toBeGreaterThan(0);
      waited += sleep;
      expect(waited).toBeLessThanOrEqual(GONE_FOR_MS);
      await pass(sleep);
    }
    await service.look();
    expect(taken).toEqual([GONE]);
    expect(woken).toBe(1);
    expect(told).toMatchObject([{ type: 'instance.gone', instanceId: 'A', runs: 1 }]);
  });

  it('leaves the runs of jobs alone that it does not know', async () => {
    service.attend();
    others = { run: true, gone: [{ ...GONE, jobName: 'new one' }] };
    for (let time = 0; time < 4; time++) {
      await service.look();
      await pass(GONE_FOR_MS / 3);
    }
    expect(taken).toEqual([]);
  });

  it('does not begin without fastFailover', async () => {
    const off = new FastFailoverService(
      { fastFailover: false } as never,
      'me',
      { ownersGone: async () => ((looks += 1), others) } as never,
      { whenRunsAreSeen: () => (woken += 1) } as never,
      {} as never,
      { nextDueAt: 0 } as never,
      { now: () => NOW } as never,
      new SchedulerEvents(),
    );
    off.start();
    off.attend();
    await pass(2 * LOOK_EVERY_MS);
    await off.stop();
    expect([looks, woken]).toEqual([0, 0]);
  });
});
