import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { missedUntil, planCatchUp, type CatchUpPlan, type DecidedSpan } from '../../lib/domain/catch-up.js';
import type { JobDefinition } from '../../lib/domain/job-definition.js';
import { aJob } from '../support/job.js';

const at = (time: string) => Date.parse(`2026-03-10T${time}Z`);
const HOURLY = aJob('job', '0 * * * *', { lateAfterMs: 60_000 });

const plan = (job: JobDefinition, from: number, now: number, decided: DecidedSpan[] = []): CatchUpPlan => planCatchUp(job.schedule, { from, now, held: null }, decided, job);

describe('planning missed occurrences', () => {
  it.each<[JobDefinition['missed'], string[], [string, string, number, string][]]>([
    ['skip', [], [['03:00:00', '06:00:00', 4, 'missed: skipped']]],
    ['once', ['06:00:00'], [['03:00:00', '05:00:00', 3, 'missed: superseded by a newer one']]],
    ['all', ['03:00:00', '04:00:00', '05:00:00', '06:00:00'], []],
  ])('%s', (missed, run, record) => {
    expect(plan({ ...HOURLY, missed }, at('02:00:00'), at('06:30:00'))).toMatchObject({
      run: run.map(at),
      record: record.map(([from, until, count, reason]) => ({ from: at(from), until: at(until), count, reason })),
    });
  });

  it('keeps the newest where there are too many, oldest first', () => {
    const planned = plan({ ...HOURLY, missed: 'all', maxCatchUp: 2 }, at('02:00:00'), at('06:30:00'));
    expect(planned.run).toEqual([at('05:00:00'), at('06:00:00')]);
    expect(planned.record).toEqual([{ from: at('03:00:00'), until: at('04:00:00'), count: 2, reason: 'missed: too many' }]);
  });

  it('records what is older than the window, whatever the policy', () => {
    const planned = plan({ ...HOURLY, missed: 'all', catchUpWindowMs: 2 * 3_600_000 }, at('00:00:00'), at('06:30:00'));
    expect(planned.run).toEqual([at('05:00:00'), at('06:00:00')]);
    expect(planned.record).toEqual([{ from: at('01:00:00'), until: at('04:00:00'), count: 4, reason: 'missed: too old' }]);
  });

  it('leaves alone what is merely late, or held back by its jitter', () => {
    expect(plan(HOURLY, at('05:30:00'), at('06:00:30'))).toEqual({ run: [], record: [], decidedUntil: at('05:59:30') });
    const jittered = { ...HOURLY, jitterMs: 600_000 };
    expect(plan(jittered, at('05:30:00'), at('06:10:30')).run).toEqual([]);
    expect(plan(jittered, at('05:30:00'), at('06:11:00')).run).toEqual([at('06:00:00')]);
  });

  it('finds the hole behind a newer row, and passes over what a gap covers', () => {
    const decided = [
      { from: at('03:00:00'), until: at('03:00:00') },
      { from: at('05:00:00'), until: at('06:00:00') },
    ];
    expect(plan({ ...HOURLY, missed: 'all' }, at('02:00:00'), at('07:30:00'), decided).run).toEqual([at('04:00:00'), at('07:00:00')]);
  });

  it('what came due while an operator held the job back is not missed', () => {
    const paused = { from: at('02:00:00'), now: at('06:30:00'), held: { since: at('04:30:00'), reason: 'paused' as const } };
    expect(planCatchUp(HOURLY.schedule, paused, [], HOURLY)).toMatchObject({
      run: [at('04:00:00')],
      record: [
        { from: at('03:00:00'), until: at('03:00:00'), reason: 'missed: superseded by a newer one' },
        { from: at('05:00:00'), until: at('06:00:00'), count: 2, reason: 'paused' },
      ],
    });
    const disabled = { ...paused, held: { since: -Infinity, reason: 'disabled' as const } };
    expect(planCatchUp(HOURLY.schedule, disabled, [], HOURLY)).toMatchObject({ run: [], record: [{ count: 4, reason: 'disabled' }] });
  });

  it('has nothing to do twice', () => {
    const first = plan(HOURLY, at('02:00:00'), at('06:30:00'));
    expect(plan(HOURLY, first.decidedUntil, at('06:30:00'))).toEqual({ run: [], record: [], decidedUntil: first.decidedUntil });
  });
});

describe('properties of the plan', () => {
  const minutes = (count: number) => at('00:00:00') + count * 60_000;
  const job = fc.record({
    missed: fc.constantFrom('skip' as const, 'once' as const, 'all' as const),
    maxCatchUp: fc.integer({ min: 1, max: 6 }),
    catchUpWindowMs: fc.integer({ min: 2, max: 90 }).map((value) => value * 60_000),
    lateAfterMs: fc.integer({ min: 0, max: 2 }).map((value) => value * 60_000),
  });
  const spans = fc.array(
    fc.tuple(fc.integer({ min: 0, max: 90 }), fc.integer({ min: 0, max: 20 })).map(([from, length]) => ({ from: minutes(from), until: minutes(from + length) })),
    { maxLength: 5 },
  );

  it('every missed fire time without a row is decided exactly once, and none with one', () => {
    fc.assert(
      fc.property(job, spans, fc.integer({ min: 0, max: 30 }), fc.integer({ min: 0, max: 90 }), (changes, decided, from, length) => {
        const each = { ...aJob('job', '* * * * *'), ...changes };
        const now = minutes(from + length) + 1_000;
        const planned = plan(each, minutes(from), now, decided);
        const isDecided = (fireTime: number) => decided.some((span) => span.from <= fireTime && fireTime <= span.until);
        const open = each.schedule.between(minutes(from), Math.max(minutes(from), missedUntil(now, each))).filter((fireTime) => !isDecided(fireTime));
        const recorded = planned.record.reduce((sum, { count }) => sum + count, 0);
        expect(planned.run.length + recorded).toBe(open.length);
        expect(planned.run.every((fireTime) => open.includes(fireTime))).toBe(true);
        expect(planned.run).toEqual([...planned.run].sort((a, b) => a - b));
        const covered = open.filter((fireTime) => planned.record.some((gap) => gap.from <= fireTime && fireTime <= gap.until));
        expect([...covered, ...planned.run].sort((a, b) => a - b)).toEqual(open);
        expect(planned.record.every((gap) => open.includes(gap.from) && open.includes(gap.until))).toBe(true);
        expect(planned.run.every((fireTime) => fireTime > now - each.catchUpWindowMs)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});
