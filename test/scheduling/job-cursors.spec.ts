import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { JobCursor, JobCursors } from '../../lib/jobs/job-cursors.js';
import { aJob } from '../support/job.js';

const START = Date.parse('2026-03-10T10:00:00Z');
const EXPRESSIONS = ['* * * * *', '*/7 * * * * *', '0 11 * * *', '0 0 1 1 *'];
const NAMES = ['a', 'b', 'c', 'd', 'e', 'f'];

const seconds = fc.integer({ min: -60, max: 1_200 });
const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      add: fc.constantFrom(...NAMES),
      expression: fc.constantFrom(...EXPRESSIONS),
      jitterMs: fc.constantFrom(0, 40_000),
      decided: seconds,
    }),
  },
  { weight: 1, arbitrary: fc.record({ remove: fc.constantFrom(...NAMES) }) },
  { weight: 4, arbitrary: fc.record({ move: fc.nat(), until: seconds }) },
);

describe('the cursors of an instance', () => {
  it('are found as if all were gone through, whoever moves, replaces and removes them', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), seconds, (steps, look) => {
        const now = START + look * 1_000;
        const cursors = new JobCursors();
        const current = new Map<string, JobCursor>();
        /** Also those that were replaced: whoever was deciding about one still holds it. */
        const ever: JobCursor[] = [];
        for (const one of steps) {
          if ('add' in one) {
            const job = aJob(one.add, one.expression, { jitterMs: one.jitterMs });
            const cursor = new JobCursor(job, START + one.decided * 1_000);
            cursors.set(cursor);
            current.set(one.add, cursor);
            ever.push(cursor);
          } else if ('remove' in one) {
            cursors.delete(one.remove);
            current.delete(one.remove);
          } else {
            ever[one.move % ever.length]?.decideUntil(START + one.until * 1_000);
          }
          const all = [...current.values()];
          const dueAt = all.map((cursor) => cursor.dueAt ?? Infinity).sort((a, b) => a - b);
          expect(cursors.nextDueAt).toBe(dueAt[0] ?? Infinity);
          expect(cursors.nextDueAfter(now)).toBe(dueAt.find((at) => at > now) ?? Infinity);
          const { live, missed } = cursors.due(now);
          expect(new Set(live)).toEqual(new Set(all.filter((cursor) => cursor.isDue(now) && !cursor.isMissed(now))));
          expect(new Set(missed)).toEqual(new Set(all.filter((cursor) => cursor.isDue(now) && cursor.isMissed(now))));
          expect(live.map((cursor) => cursor.dueAt!)).toEqual(
            live.map((cursor) => cursor.dueAt!).sort((a, b) => a - b),
          );
          for (const name of NAMES) expect(cursors.get(name)).toBe(current.get(name));
        }
      }),
    );
  });

  it('of a schedule that never fires again are never due', () => {
    const cursors = new JobCursors();
    cursors.set(new JobCursor(aJob('last', '0 0 1 1 *'), 8.64e15 - 1_000));
    expect(cursors.nextDueAt).toBe(Infinity);
    expect(cursors.due(8.64e15).live).toEqual([]);
  });
});
