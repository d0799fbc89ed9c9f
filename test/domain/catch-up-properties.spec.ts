import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { planCatchUp, type CatchUpPlan, type HeldSpan } from '../../lib/catch-up/catch-up.js';
import { type MissedGap, planSuperseded } from '../../lib/jobs/undecided.js';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import { compileSchedule, type Schedule } from '../../lib/cron/schedule.js';
import { missedUntil } from '../../lib/jobs/job-cursors.js';
import type { DecidedSpan } from '../../lib/jobs/undecided.js';
import { aJob } from '../support/job.js';
import { anExpression } from './cron-arbitrary.js';

const BEFORE_THE_CHANGE = Date.parse('2026-03-27T12:00:00Z');
const HOUR_MS = 3_600_000;

interface Situation {
  readonly job: JobDefinition;
  readonly from: number;
  readonly now: number;
  readonly held: HeldSpan[];
  readonly decided: DecidedSpan[];
}

const dense = fc.constantFrom('* * * * * *', '* * * * *', '*/20 1-3 * * *', '30 2 * * *', '0 * * * *', '0 0 * * 1');
const expression = fc.oneof(
  dense,
  anExpression.map(({ text }) => text),
);
const timeZone = fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Africa/Cairo');

/** A moment at a fire time, or just beside one: the borders are what goes wrong. */
const moment = fc.tuple(fc.nat({ max: 59 }), fc.constantFrom(-1_000, -1, 0, 1, 500));
const moments = fc.tuple(moment, moment);

/** All moments are near fire times, so that windows, pauses and rows meet them whatever the expression. */
const situation: fc.Arbitrary<Situation> = fc
  .record({
    expression,
    timeZone,
    window: moments,
    holds: fc.array(
      fc.tuple(
        moments,
        fc.constantFrom('paused' as const, 'disabled' as const),
        fc.constantFrom('past', 'past', 'lasting', 'always'),
      ),
      { maxLength: 4 },
    ),
    rows: fc.array(
      fc.oneof(
        fc.nat({ max: 59 }).map((index) => [index, index] as const),
        fc.tuple(fc.nat({ max: 59 }), fc.nat({ max: 59 })),
      ),
      { maxLength: 6 },
    ),
    missed: fc.constantFrom('skip' as const, 'once' as const, 'all' as const),
    maxCatchUp: fc.integer({ min: 1, max: 8 }),
    catchUpWindowMs: fc.oneof(
      fc.constant(Infinity),
      fc.integer({ min: 0, max: 200 }).map((value) => value * 17 * 60_000),
    ),
    lateAfterMs: fc.constantFrom(null, 0, 1_000, 120_000, HOUR_MS),
    jitterMs: fc.constantFrom(0, 0, 30_000),
  })
  .map(({ expression: text, timeZone: zone, window, holds, rows, ...policies }) => {
    const schedule = compiled(text, zone);
    const fires = schedule?.between(BEFORE_THE_CHANGE, BEFORE_THE_CHANGE + 20 * 366 * 24 * HOUR_MS, 60) ?? [];
    if (!schedule || fires.length < 2) return null;
    const at = ([index, offset]: readonly [number, number]) => fires[index % fires.length]! + offset;
    const inOrder = (pair: readonly (readonly [number, number])[]) =>
      pair.map(at).sort((a, b) => a - b) as [number, number];
    const [from, now] = inOrder(window);
    return {
      job: { ...aJob('job', '* * * * *', policies), schedule },
      from,
      now,
      held: holds.map(([pair, reason, kind]) => {
        const [since, until] = inOrder(pair);
        return { since: kind === 'always' ? -Infinity : since, until: kind === 'past' ? until : Infinity, reason };
      }),
      decided: rows.map((pair) => {
        const [first, last] = inOrder(pair.map((index) => [index, 0] as const));
        return { from: first, until: last };
      }),
    };
  })
  .filter((made) => made !== null);

function compiled(text: string, zone: string): Schedule | null {
  try {
    return compileSchedule(text, zone);
  } catch {
    return null;
  }
}

const planOf = ({ job, from, now, held, decided }: Situation): CatchUpPlan =>
  planCatchUp(job, { from, now, held }, decided);
const covers = (span: DecidedSpan, fireTime: number) => span.from <= fireTime && fireTime <= span.until;
const holdOf = (held: readonly HeldSpan[], fireTime: number) =>
  [...held]
    .sort((a, b) => a.since - b.since || b.until - a.until)
    .find(({ since, until }) => since <= fireTime && fireTime < until);
const open = ({ job, from, now, decided }: Situation) =>
  job.schedule
    .between(from, Math.max(from, missedUntil(now, job)))
    .filter((fireTime) => !decided.some((span) => covers(span, fireTime)));

/** The same plan, one fire time after the other. */
function planByHand(given: Situation): CatchUpPlan {
  const { job, from, now, held } = given;
  const free = open(given).filter((fireTime) => !holdOf(held, fireTime));
  const young = free.filter((fireTime) => fireTime > now - job.catchUpWindowMs);
  const end = Math.max(from, missedUntil(now, job));
  const late = job.schedule.between(end, Math.max(end, now)).filter((fireTime) => !holdOf(held, fireTime));
  const most = { skip: 0, once: late.length === 1 ? 0 : 1, all: job.maxCatchUp }[job.missed];
  const run = most === 0 ? [] : young.slice(-most);
  const reason = (
    { skip: 'missed: skipped', once: 'missed: superseded by a newer one', all: 'missed: too many' } as const
  )[job.missed];
  const gap = (fireTimes: number[], why: MissedGap['reason']): MissedGap[] =>
    fireTimes.length === 0
      ? []
      : [{ from: fireTimes[0]!, until: fireTimes.at(-1)!, count: fireTimes.length, reason: why }];
  return {
    run,
    record: [
      ...gap(
        free.filter((fireTime) => !young.includes(fireTime)),
        'missed: too old',
      ),
      ...gap(
        young.filter((fireTime) => !run.includes(fireTime)),
        reason,
      ),
      ...[...new Set(held)].flatMap((hold) =>
        gap(
          open(given).filter((fireTime) => holdOf(held, fireTime) === hold),
          hold.reason,
        ),
      ),
    ],
    decidedUntil: end,
  };
}

const byKey = ({ record, ...plan }: CatchUpPlan) => ({
  ...plan,
  record: [...record].sort((a, b) => a.until - b.until),
});

describe('properties of the plan', () => {
  const always = (property: (given: Situation) => void) =>
    fc.assert(fc.property(situation, property), { numRuns: 500 });

  it('is what going through every fire time by hand comes to', () => {
    always((given) => expect(byKey(planOf(given))).toEqual(byKey(planByHand(given))));
  });

  it('decides each missed fire time exactly once, and none that has a row', () => {
    always((given) => {
      const { run, record } = planOf(given);
      const held = record.filter(({ reason }) => reason === 'paused' || reason === 'disabled');
      const missed = record.filter((row) => !held.includes(row));
      for (const fireTime of open(given)) {
        const rows = (holdOf(given.held, fireTime) ? held : missed).filter((row) => covers(row, fireTime));
        expect(rows.length + (run.includes(fireTime) ? 1 : 0)).toBe(1);
      }
      expect(run.length + record.reduce((sum, { count }) => sum + count, 0)).toBe(open(given).length);
    });
  });

  it('has a key of its own for each row', () => {
    always((given) => {
      const { run, record } = planOf(given);
      const keys = [...run, ...record.map(({ until }) => until)];
      expect(new Set(keys).size).toBe(keys.length);
      expect(keys.every((key) => open(given).includes(key))).toBe(true);
    });
  });

  it('runs what is neither too old, nor too many, nor held, nor from before the job began: oldest first', () => {
    always((given) => {
      const { job, from, now, held } = given;
      const { run, record } = planOf(given);
      expect(run.length).toBeLessThanOrEqual({ skip: 0, once: 1, all: job.maxCatchUp }[job.missed]);
      expect(run).toEqual([...run].sort((a, b) => a - b));
      expect(
        run.every(
          (fireTime) => fireTime > from && fireTime > now - job.catchUpWindowMs && fireTime <= missedUntil(now, job),
        ),
      ).toBe(true);
      expect(run.some((fireTime) => held.some(({ since, until }) => since <= fireTime && fireTime < until))).toBe(
        false,
      );
      expect(record.every((gap) => gap.from > from)).toBe(true);
    });
  });

  it('planned again with its own rows comes to nothing', () => {
    always((given) => {
      const { run, record, decidedUntil } = planOf(given);
      const rows = [...record, ...run.map((fireTime) => ({ from: fireTime, until: fireTime }))];
      const nothing = { run: [], record: [], decidedUntil };
      expect(planOf({ ...given, decided: [...given.decided, ...rows] })).toEqual(nothing);
      expect(planOf({ ...given, from: decidedUntil })).toEqual(nothing);
    });
  });

  it('an edit leaves one row for all that was open, or none', () => {
    always((given) => {
      const { job, from, now, decided } = given;
      const undecided = job.schedule
        .between(from, now)
        .filter((fireTime) => !decided.some((span) => covers(span, fireTime)));
      const [first] = undecided;
      expect(planSuperseded(job.schedule, { from, until: now }, decided)).toEqual(
        first === undefined
          ? null
          : { from: first, until: undecided.at(-1), count: undecided.length, reason: 'superseded by an edit' },
      );
    });
  });
});

describe('the work of a plan', () => {
  function counted(schedule: Schedule): { schedule: Schedule; asked: () => number } {
    let asked = 0;
    const counting = new Proxy(schedule, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key);
        return typeof value !== 'function' ? value : (...given: unknown[]) => (asked++, value.apply(target, given));
      },
    });
    return { schedule: counting, asked: () => asked };
  }

  it('is in proportion to what is run and to the rows, not to thirty days of seconds', () => {
    const { schedule, asked } = counted(compileSchedule('* * * * * *', 'Europe/Berlin'));
    const [day, from] = [24 * HOUR_MS, BEFORE_THE_CHANGE];
    const held = Array.from({ length: 5 }, (_, index) => ({
      since: from + index * 5 * day,
      until: from + (index * 5 + 1) * day,
      reason: 'paused' as const,
    }));
    const decided = Array.from({ length: 20 }, (_, index) => ({
      from: from + index * day,
      until: from + index * day + 60_000,
    }));
    const job = {
      ...aJob('job', '* * * * * *', { missed: 'all', maxCatchUp: 100, catchUpWindowMs: 10 * day }),
      schedule,
    };
    const plan = planCatchUp({ ...job, schedule }, { from, now: from + 30 * day, held }, decided);
    expect(plan.run).toHaveLength(100);
    expect(plan.record.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThan(29 * 86_400);
    expect(asked()).toBeLessThan(2 * (100 + 5 + 20) + 50);
  });
});
