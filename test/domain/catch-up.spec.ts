import { describe, expect, it } from '@jest/globals';
import { planCatchUp, type CatchUpPlan, type HeldSpan } from '../../lib/catch-up/catch-up.js';
import { planSuperseded } from '../../lib/jobs/undecided.js';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import type { DecidedSpan } from '../../lib/jobs/undecided.js';
import { aJob } from '../support/job.js';

const at = (time: string) => Date.parse(`2026-03-10T${time}Z`);
const HOURLY = aJob('job', '0 * * * *', { lateAfterMs: 60_000 });

const plan = (job: JobDefinition, from: number, now: number, decided: DecidedSpan[] = []): CatchUpPlan =>
  planCatchUp(job, { from, now, held: [] }, decided);

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
    expect(planned.record).toEqual([
      { from: at('03:00:00'), until: at('04:00:00'), count: 2, reason: 'missed: too many' },
    ]);
  });

  it('records what is older than the window, whatever the policy', () => {
    const planned = plan({ ...HOURLY, missed: 'all', catchUpWindowMs: 2 * 3_600_000 }, at('00:00:00'), at('06:30:00'));
    expect(planned.run).toEqual([at('05:00:00'), at('06:00:00')]);
    expect(planned.record).toEqual([
      { from: at('01:00:00'), until: at('04:00:00'), count: 4, reason: 'missed: too old' },
    ]);
  });

  it('leaves alone what is merely late, or held back by its jitter', () => {
    expect(plan(HOURLY, at('05:30:00'), at('06:00:30'))).toEqual({ run: [], record: [], decidedUntil: at('05:59:30') });
    const jittered = { ...HOURLY, jitterMs: 600_000 };
    expect(plan(jittered, at('05:30:00'), at('06:10:30')).run).toEqual([]);
    expect(plan(jittered, at('05:30:00'), at('06:11:00')).run).toEqual([at('06:00:00')]);
  });

  it('once means once: what is due by now runs as usual, and nothing missed beside it', () => {
    const live = plan(HOURLY, at('02:00:00'), at('06:00:30'));
    expect(live).toMatchObject({
      run: [],
      record: [{ from: at('03:00:00'), until: at('05:00:00'), count: 3, reason: 'missed: superseded by a newer one' }],
    });
    expect(plan({ ...HOURLY, missed: 'all' }, at('02:00:00'), at('06:00:30')).run).toHaveLength(3);
    const heldBack = {
      from: at('02:00:00'),
      now: at('06:00:30'),
      held: [{ since: at('05:59:00'), until: Infinity, reason: 'paused' as const }],
    };
    expect(planCatchUp(HOURLY, heldBack, []).run).toEqual([at('05:00:00')]);
  });

  it('finds the hole behind a newer row, and passes over what a gap covers', () => {
    const decided = [
      { from: at('03:00:00'), until: at('03:00:00') },
      { from: at('05:00:00'), until: at('06:00:00') },
    ];
    expect(plan({ ...HOURLY, missed: 'all' }, at('02:00:00'), at('07:30:00'), decided).run).toEqual([
      at('04:00:00'),
      at('07:00:00'),
    ]);
  });

  it('has nothing to do twice', () => {
    const first = plan(HOURLY, at('02:00:00'), at('06:30:00'));
    expect(plan(HOURLY, first.decidedUntil, at('06:30:00'))).toEqual({
      run: [],
      record: [],
      decidedUntil: first.decidedUntil,
    });
  });
});

describe('what came due while an operator held the job back', () => {
  const held = (reason: HeldSpan['reason'], since: string, until?: string): HeldSpan => ({
    since: at(since),
    until: until ? at(until) : Infinity,
    reason,
  });
  const planHeld = (job: JobDefinition, spans: HeldSpan[], decided: DecidedSpan[] = []) =>
    planCatchUp(job, { from: at('02:00:00'), now: at('08:30:00'), held: spans }, decided);
  const row = (from: string, until: string, count: number, reason: string) => ({
    from: at(from),
    until: at(until),
    count,
    reason,
  });
  const ALL = { ...HOURLY, missed: 'all' as const };

  it('is not missed while the hold lasts', () => {
    expect(planHeld(HOURLY, [held('paused', '04:30:00')])).toMatchObject({
      run: [at('04:00:00')],
      record: [
        row('03:00:00', '03:00:00', 1, 'missed: superseded by a newer one'),
        row('05:00:00', '08:00:00', 4, 'paused'),
      ],
    });
    const always = { since: -Infinity, until: Infinity, reason: 'disabled' as const };
    expect(planHeld(HOURLY, [always])).toMatchObject({ run: [], record: [row('03:00:00', '08:00:00', 6, 'disabled')] });
  });

  it('is not missed after it was resumed either: the newest that was not held runs', () => {
    expect(planHeld(HOURLY, [held('paused', '05:30:00', '08:10:00')])).toMatchObject({
      run: [at('05:00:00')],
      record: [
        row('03:00:00', '04:00:00', 2, 'missed: superseded by a newer one'),
        row('06:00:00', '08:00:00', 3, 'paused'),
      ],
    });
    expect(planHeld(ALL, [held('paused', '03:30:00', '06:30:00')])).toMatchObject({
      run: [at('03:00:00'), at('07:00:00'), at('08:00:00')],
      record: [row('04:00:00', '06:00:00', 3, 'paused')],
    });
  });

  it('begins with the moment it was held and ends before the moment it was resumed', () => {
    expect(planHeld(ALL, [held('paused', '04:00:00', '07:00:00')])).toMatchObject({
      run: [at('03:00:00'), at('07:00:00'), at('08:00:00')],
      record: [row('04:00:00', '06:00:00', 3, 'paused')],
    });
    expect(planHeld(ALL, [held('paused', '04:00:00', '04:00:00')]).record).toEqual([]);
  });

  it('has a row for each hold, and each fire time is in one of them', () => {
    const overlapping = [held('paused', '05:30:00', '07:30:00'), held('disabled', '03:30:00', '06:30:00')];
    expect(planHeld(ALL, overlapping).record).toEqual([
      row('04:00:00', '06:00:00', 3, 'disabled'),
      row('07:00:00', '07:00:00', 1, 'paused'),
    ]);
    expect(
      planHeld(ALL, [held('disabled', '03:30:00', '07:30:00'), held('paused', '04:30:00', '05:30:00')]).record,
    ).toEqual([row('04:00:00', '07:00:00', 4, 'disabled')]);
  });

  it('is passed over where it has rows, and does not count as too old', () => {
    const decided = [{ from: at('05:00:00'), until: at('05:00:00') }];
    const job = { ...HOURLY, catchUpWindowMs: 2 * 3_600_000 };
    expect(planHeld(job, [held('paused', '03:30:00', '05:30:00')], decided)).toMatchObject({
      run: [at('08:00:00')],
      record: [
        row('03:00:00', '06:00:00', 2, 'missed: too old'),
        row('07:00:00', '07:00:00', 1, 'missed: superseded by a newer one'),
        row('04:00:00', '04:00:00', 1, 'paused'),
      ],
    });
  });
});

describe('an edit', () => {
  const superseded = (from: string, until: string, decided: DecidedSpan[] = []) =>
    planSuperseded(HOURLY.schedule, { from: at(from), until: at(until) }, decided);

  it('leaves one row for what the old expression had not decided', () => {
    const decided = [{ from: at('04:00:00'), until: at('04:00:00') }];
    const reason = 'superseded by an edit';
    expect(superseded('02:00:00', '06:00:00', decided)).toEqual({
      from: at('03:00:00'),
      until: at('06:00:00'),
      count: 3,
      reason,
    });
    expect(superseded('02:00:00', '05:59:59', decided)).toMatchObject({ until: at('05:00:00'), count: 2 });
  });

  it('leaves none when all was decided', () => {
    expect(superseded('02:00:00', '02:59:59')).toBeNull();
    expect(superseded('02:00:00', '04:30:00', [{ from: at('03:00:00'), until: at('04:00:00') }])).toBeNull();
  });
});
