import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  heirOfGap,
  planFeed,
  standingAmongNames,
  standingOf,
  type OccurrenceRow,
} from '../../lib/catch-up/backfill-plan.js';
import { backfillRange } from '../../lib/catch-up/backfill-plan.js';
import { backlogRoom } from '../../lib/runs/waiting-runs.service.js';
import type { RunStatus } from '../../lib/options/run.js';
import { compileSchedule } from '../../lib/cron/schedule.js';

const STATUSES: RunStatus[] = ['queued', 'running', 'done', 'failed', 'orphaned', 'dead', 'skipped', 'cancelled'];

const row = (fireTime: number, status: RunStatus, attempt = 0): OccurrenceRow => ({
  fireTime,
  status,
  attempt,
  reason: null,
  gapFrom: null,
  gapCount: null,
});

describe('an occurrence', () => {
  it.each([
    [undefined, 0, 'never ran'],
    ['skipped', 0, 'never ran'],
    ['cancelled', 0, 'never ran'],
    ['cancelled', 2, 'ran'],
    ['done', 1, 'ran'],
    ['dead', 3, 'ran'],
    ['queued', 0, 'under way'],
    ['running', 1, 'under way'],
    ['failed', 1, 'under way'],
    ['orphaned', 1, 'under way'],
  ] as const)('%s at attempt %i: %s', (status, attempt, standing) => {
    expect(standingOf(status && { status, attempt })).toBe(standing);
  });
});

describe('an occurrence of a renamed job', () => {
  const skipped = (reason: string) => ({ status: 'skipped', attempt: 0, reason }) as const;

  it.each([
    ['no row', undefined, 'ran', 'ran as another name'],
    ['no row', undefined, 'under way', 'under way'],
    ['no row', undefined, 'never ran', 'never ran'],
    ['no row', undefined, undefined, 'never ran'],
    ['one that was paused', skipped('paused'), 'ran', 'ran as another name'],
    ['one that was paused', skipped('paused'), undefined, 'never ran'],
    ['one that says it was decided', skipped('decided as old'), 'ran', 'ran as another name'],
    ['one that says it was decided', skipped('decided as old'), undefined, 'ran as another name'],
    ['one that says it was decided', skipped('decided as old'), 'never ran', 'never ran'],
    ['one that ran', { status: 'done', attempt: 1, reason: null }, 'ran', 'ran'],
  ] as const)('with %s (%j), where the old name %s: %s', (_what, row, elsewhere, standing) => {
    expect(standingAmongNames(row, elsewhere)).toBe(standing);
  });
});

describe('a feed', () => {
  const fireTimes = [10, 20, 30, 40];
  const rows = new Map(
    [row(10, 'done', 1), row(20, 'skipped'), row(30, 'running', 1)].map((one) => [one.fireTime, one]),
  );
  const all = { after: 0, room: 10, replay: false, liveAfter: 100 };

  it('queues what never ran, and leaves the rest alone', () => {
    expect(planFeed(fireTimes, rows, all)).toEqual({
      insert: [40],
      reopen: [rows.get(20)],
      leftAlone: 2,
      fedUntil: 40,
      stop: null,
    });
  });

  it('replays what ran, never what is under way', () => {
    expect(planFeed(fireTimes, rows, { ...all, replay: true })).toMatchObject({
      insert: [40],
      reopen: [{ fireTime: 10 }, { fireTime: 20 }],
      leftAlone: 1,
    });
  });

  it('stops before the first it has no room for, and passes over what needs none', () => {
    expect(planFeed(fireTimes, rows, { ...all, room: 1 })).toEqual({
      insert: [],
      reopen: [rows.get(20)],
      leftAlone: 2,
      fedUntil: 30,
      stop: 'no room',
    });
    expect(planFeed(fireTimes, rows, { ...all, room: 0 })).toMatchObject({
      leftAlone: 1,
      fedUntil: 10,
      stop: 'no room',
    });
  });

  it('leaves to the schedule what it may still run itself', () => {
    expect(planFeed(fireTimes, rows, { ...all, liveAfter: 35 })).toMatchObject({
      insert: [],
      fedUntil: 30,
      stop: 'not decided yet',
    });
    expect(planFeed(fireTimes, rows, { ...all, liveAfter: 15 })).toMatchObject({ reopen: [{ fireTime: 20 }] });
  });

  it('decides each occurrence exactly once, however little room each pass has', () => {
    const anyRows = fc.array(
      fc.tuple(fc.integer({ min: 1, max: 30 }), fc.constantFrom(...STATUSES), fc.integer({ min: 0, max: 2 })),
    );
    const rooms = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1 });
    fc.assert(
      fc.property(anyRows, rooms, fc.boolean(), (given, room, replay) => {
        const times = Array.from({ length: 30 }, (_, index) => index + 1);
        const there = new Map(given.map(([at, status, attempt]) => [at, row(at, status, attempt)]));
        const whole = planFeed(times, there, { after: 0, room: 30, replay, liveAfter: 30 });
        const inserted: number[] = [];
        const reopened: number[] = [];
        let left = 0;
        let after = 0;
        for (let pass = 0; after < 30; pass++) {
          const plan = planFeed(
            times.filter((at) => at > after),
            there,
            { after, room: room[pass % room.length]!, replay, liveAfter: 30 },
          );
          inserted.push(...plan.insert);
          reopened.push(...plan.reopen.map(({ fireTime }) => fireTime));
          left += plan.leftAlone;
          expect(plan.fedUntil).toBeGreaterThan(after);
          after = plan.fedUntil;
        }
        expect(inserted).toEqual(whole.insert);
        expect(reopened).toEqual(whole.reopen.map(({ fireTime }) => fireTime));
        expect(inserted.length + reopened.length + left).toBe(30);
      }),
    );
  });
});

describe('the heir of a gap', () => {
  const hourly = compileSchedule('0 * * * *', 'UTC');
  const at = (hour: number) => Date.UTC(2026, 2, 10, hour);
  const gap = { from: at(3), until: at(9) };

  it.each([
    ['the occurrence before', [], at(8)],
    ['the latest without a row', [at(8), at(7), at(4)], at(6)],
    ['the first of the gap', [at(8), at(7), at(6), at(5), at(4)], at(3)],
    ['nobody when all have rows', [at(8), at(7), at(6), at(5), at(4), at(3)], null],
  ])('is %s', (_what, taken, heir) => {
    expect(heirOfGap(hourly, gap, new Set(taken))).toBe(heir);
  });

  it('is nobody for a gap of one', () => {
    expect(heirOfGap(hourly, { from: at(9), until: at(9) }, new Set())).toBeNull();
  });
});

describe('a range', () => {
  const nightly = compileSchedule('15 2 * * *', 'Europe/Berlin');
  const now = Date.parse('2026-04-01T00:00:00Z');
  const day = (text: string) => new Date(`2026-${text}`);
  const read = (from: unknown, to: unknown, atMost = 10_000, schedule = nightly) =>
    backfillRange(schedule, { from, to }, now, atMost);

  it('has both its ends', () => {
    const exact = read(day('03-02T01:15:00Z'), day('03-05T01:15:00Z'));
    expect(exact).toEqual({
      fireTimes: ['02', '03', '04', '05'].map((date) => Date.parse(`2026-03-${date}T01:15:00Z`)),
    });
    expect(read(day('03-02T01:15:00Z'), day('03-02T01:15:00Z'))).toEqual({
      fireTimes: [Date.parse('2026-03-02T01:15:00Z')],
    });
  });

  it.each([
    ['from that is no date', '2026-03-02', day('03-05'), /^from: expected a valid Date, got "2026-03-02"/],
    ['to that is invalid', day('03-02'), new Date(NaN), /^to: expected a valid Date, got an invalid one/],
    ['from after to', day('03-05'), day('03-02'), /is later than to .*: exchange them/],
    [
      'what is still to come',
      day('03-02'),
      day('04-01T00:15:00Z'),
      /later than the database's clock \(2026-04-01T00:00:00\.000Z\), and the occurrence of 2026-04-01T00:15:00\.000Z is still to come/,
    ],
    ['nothing but the future', day('04-01T00:05:00Z'), day('04-01T00:10:00Z'), /has no fire time/],
    [
      'no fire time',
      day('03-02T03:00:00Z'),
      day('03-02T04:00:00Z'),
      /"15 2 \* \* \*" \(Europe\/Berlin\) has no fire time .*; the nearest are 2026-03-02T01:15:00\.000Z and 2026-03-03T01:15:00\.000Z/,
    ],
  ])('is refused with %s', (_what, from, to, message) => {
    expect(read(from, to)).toEqual({ problem: expect.stringMatching(message) });
  });

  it('may end later than now, as a day does, while nothing of it is still to come', () => {
    expect(read(day('03-31T00:00:00Z'), day('04-01T00:14:59.999Z'))).toEqual({
      fireTimes: [Date.parse('2026-03-31T00:15:00Z')],
    });
  });

  it('is refused with more than it may have, and says how many there are', () => {
    const secondly = compileSchedule('* * * * * *', 'UTC');
    expect(read(day('03-01'), day('03-31'), 10_000, secondly)).toEqual({
      problem: expect.stringMatching(/there are 2592001 occurrences .*atMost allows 10000/),
    });
    expect(read(day('03-02'), day('03-05T23:00:00Z'), 3)).toEqual({
      problem: expect.stringMatching(/there are 4 occurrences/),
    });
  });

  it('is refused over more months than claims can plan with', () => {
    const monthly = compileSchedule('0 0 1 * *', 'UTC');
    expect(read(new Date('2016-04-01T00:00:00Z'), day('03-31'), 10_000, monthly)).toHaveProperty(
      'fireTimes.length',
      120,
    );
    expect(read(new Date('2016-03-01T00:00:00Z'), day('03-31'), 10_000, monthly)).toEqual({
      problem: expect.stringMatching(/in 121 months/),
    });
  });
});

describe('the room of a backlog', () => {
  it.each([
    [20, 0, 0, 15],
    [20, 14, 0, 1],
    [20, 15, 60_000, 0],
    [2, 0, 0, 1],
    [2, 1, 60_000, 0],
    [3, 1, 0, 1],
    [1, 0, 60_000, 1],
    [1, 0, 400, 0],
    [1, 0, -5_000, 0],
    [1, 1, 60_000, 0],
  ])('of %i slots with %i taken and a live occurrence in %i ms: %i', (slots, taken, untilLive, room) => {
    expect(backlogRoom(slots, taken, untilLive)).toBe(room);
  });
});
