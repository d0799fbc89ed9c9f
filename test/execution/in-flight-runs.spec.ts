import { describe, expect, it } from '@jest/globals';
import { TimeoutError } from '../../lib/runs/outcome.js';
import { LeaseLostError } from '../../lib/errors/run.errors.js';
import type { SchedulerFact } from '../../lib/observe/scheduler-event.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { GRACE_MS } from '../../lib/runs/liveness-proof.js';
import { InFlightRun, InFlightRuns } from '../../lib/runs/in-flight-runs.js';
import { LivenessProof } from '../../lib/runs/liveness-proof.js';
import { aJob } from '../support/job.js';
import { aRun } from '../support/run.js';

function begun() {
  const events = new SchedulerEvents();
  const told: SchedulerFact['type'][] = [];
  events.subscribe(({ type }) => told.push(type));
  const runs = new InFlightRuns(events);
  const run = new InFlightRun(aRun(), aJob('job', '* * * * *'));
  runs.add(run);
  return { runs, run, told };
}

describe('a run under way', () => {
  it('that loses its lease hears of it once, by its signal', () => {
    const { runs, run, told } = begun();
    runs.lose(run, 'expired');
    runs.lose(run, 'taken over');
    expect(run.signal.reason).toBeInstanceOf(LeaseLostError);
    expect(told).toEqual(['lease.lost']);
  });

  it('waits for no work of a lost lease, though the database never answers', async () => {
    const { runs, run } = begun();
    const work = run.whileOurs(new Promise(() => {}));
    runs.lose(run, 'expired');
    await expect(work).rejects.toBe(run.leaseLost);
    expect(await run.whileOurs(Promise.resolve(7))).toBe(7);
  });

  it('also when it had been told to stop before', async () => {
    const { runs, run } = begun();
    run.shutDown();
    const work = run.whileOurs(new Promise(() => {}));
    runs.lose(run, 'taken over');
    await expect(work).rejects.toBeInstanceOf(LeaseLostError);
  });

  it('that lost its lease and has not ended holds its job up here, where overlap is forbidden', () => {
    const { runs, run } = begun();
    expect(runs.lingers(run.job)).toBe(false);
    runs.lose(run, 'expired');
    expect(runs.lingers(run.job)).toBe(true);
    expect(runs.lingers({ ...run.job, overlap: 'allow' })).toBe(false);
    expect(runs.lingers(aJob('other', '* * * * *'))).toBe(false);
    runs.remove(run);
    expect(runs.lingers(run.job)).toBe(false);
  });

  it('holds nothing up when it may run beside others of its job', () => {
    const { runs, run } = begun();
    const beside = new InFlightRun(aRun({ beside: true }), run.job);
    runs.remove(run);
    runs.add(beside);
    runs.lose(beside, 'expired');
    expect(beside.leaseLost).not.toBeNull();
    expect(runs.lingers(run.job)).toBe(false);
  });

  it('and has taken its maxRunTime is given up, once: it takes no room, and holds nothing up', () => {
    const { runs, run, told } = begun();
    runs.lose(run, 'ran too long');
    runs.giveUp(run);
    runs.giveUp(run);
    expect(runs.size).toBe(0);
    expect(runs.lingers(run.job)).toBe(false);
    expect(told).toEqual(['lease.lost', 'run.abandoned']);
    expect(run.leaseLost!.message).toMatch('its maxRunTime is over');
  });

  it('is not revived by a renewal that comes too late', () => {
    const { runs, run } = begun();
    const { leaseUntil, leaseDeadline } = run;
    runs.lose(run, 'expired');
    run.renewed(new Date('2026-03-10T10:09:00Z'), leaseDeadline + 1e6);
    expect(run.leaseUntil).toBe(leaseUntil);
    expect(run.leaseDeadline).toBe(leaseDeadline);
    expect(run.signal.aborted).toBe(true);
  });

  it('keeps the first reason to stop, but for a cancel, which comes before all; after a lost lease there is none', () => {
    const { run, runs } = begun();
    run.timeOut('maxRunTime');
    run.shutDown();
    expect(run.stopReason).toBeInstanceOf(TimeoutError);
    run.cancel('wrong month');
    run.shutDown();
    expect(run.stopReason).toMatchObject({ name: 'CancelledError', reason: 'wrong month' });
    expect(run.signal.reason).toBeInstanceOf(TimeoutError);
    runs.lose(run, 'taken over');

    const { run: lost, runs: others } = begun();
    others.lose(lost, 'expired');
    lost.cancel('too late');
    expect(lost.stopReason).toBeNull();
    expect(lost.signal.reason).toBe(lost.leaseLost);
  });

  it('places are kept for what is being claimed, until that is known', async () => {
    const { runs } = begun();
    let answer!: () => void;
    const claiming = runs.reserving(3, () => new Promise<void>((resolve) => (answer = resolve)));
    expect([runs.size, runs.taken]).toEqual([1, 4]);
    answer();
    await claiming;
    await expect(runs.reserving(2, () => Promise.reject(new Error('gone')))).rejects.toThrow('gone');
    expect(runs.taken).toBe(1);
  });

  it('of two attempts in one process each is found by its own number', () => {
    const { runs, run } = begun();
    const second = new InFlightRun(aRun({ attempt: 2 }), run.job);
    runs.add(second);
    expect(runs.size).toBe(2);
    expect(runs.get(run.id, 1)).toBe(run);
    expect(runs.get(run.id, 2)).toBe(second);
  });

  it('whose end is being written has not lost its lease when a beat finds it ended', () => {
    const { runs, run, told } = begun();
    run.ending = true;
    runs.lose(run, 'taken over');
    expect(run.leaseLost).toBeNull();
    runs.lose(run, 'expired');
    expect(told).toEqual(['lease.lost']);
  });
});

describe('a run whose owner has to prove that it lives', () => {
  const CLAIMED_AT = 5_000;
  const claimed = (lifeline: LivenessProof) =>
    new InFlightRun(aRun({ leaseMs: 60_000, leaseDeadline: CLAIMED_AT + 60_000 }), aJob('job', '* * * * *'), lifeline);

  it('is lost when it was not proved in time, long before its lease ends', () => {
    const lifeline = new LivenessProof();
    lifeline.require();
    const run = claimed(lifeline);
    lifeline.extend(CLAIMED_AT + 100, CLAIMED_AT + 101);
    expect(run.ownedUntil).toBe(CLAIMED_AT + 100 + GRACE_MS);
    expect(run.lossAt(run.ownedUntil - 1)).toBeNull();
    expect(run.lossAt(run.ownedUntil)).toBe('cut off');
  });

  it('is lost by its lease, too, however well the proof goes on', () => {
    const lifeline = new LivenessProof();
    const run = claimed(lifeline);
    expect(run.lossAt(CLAIMED_AT + 59_999)).toBeNull();
    expect(run.lossAt(CLAIMED_AT + 60_000)).toBe('expired');
  });

  it('leaves no room for another while it may be taken for gone', () => {
    const lifeline = new LivenessProof();
    lifeline.require();
    const runs = new InFlightRuns(new SchedulerEvents(), lifeline);
    expect(20 - runs.taken).toBeLessThanOrEqual(0);
    lifeline.connected();
    expect(runs.taken).toBe(0);
  });
});
