import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { JobTimeline } from '../../lib/jobs/job-timeline.js';
import { Timelines } from '../../lib/jobs/timelines.js';
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

describe('the timelines of an instance', () => {
  it('are found as if all were gone through, whoever moves, replaces and removes them', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), seconds, (steps, look) => {
        const now = START + look * 1_000;
        const timelines = new Timelines();
        const current = new Map<string, JobTimeline>();
        /** Also those that were replaced: whoever was deciding about one still holds it. */
        const ever: JobTimeline[] = [];
        for (const one of steps) {
          if ('add' in one) {
            const job = aJob(one.add, one.expression, { jitterMs: one.jitterMs });
            const timeline = new JobTimeline(job, START + one.decided * 1_000);
            timelines.set(timeline);
            current.set(one.add, timeline);
            ever.push(timeline);
          } else if ('remove' in one) {
            timelines.delete(one.remove);
            current.delete(one.remove);
          } else {
            ever[one.move % ever.length]?.decideUntil(START + one.until * 1_000);
          }
          const all = [...current.values()];
          const dueAt = all.map((timeline) => timeline.dueAt ?? Infinity).sort((a, b) => a - b);
          expect(timelines.nextDueAt).toBe(dueAt[0] ?? Infinity);
          expect(timelines.nextDueAfter(now)).toBe(dueAt.find((at) => at > now) ?? Infinity);
          const { live, missed } = timelines.due(now);
          expect(new Set(live)).toEqual(
            new Set(all.filter((timeline) => timeline.isDue(now) && !timeline.isMissed(now))),
          );
          expect(new Set(missed)).toEqual(
            new Set(all.filter((timeline) => timeline.isDue(now) && timeline.isMissed(now))),
          );
          expect(live.map((timeline) => timeline.dueAt!)).toEqual(
            live.map((timeline) => timeline.dueAt!).sort((a, b) => a - b),
          );
          for (const name of NAMES) expect(timelines.get(name)).toBe(current.get(name));
        }
      }),
    );
  });

  it('of a schedule that never fires again are never due', () => {
    const timelines = new Timelines();
    timelines.set(new JobTimeline(aJob('last', '0 0 1 1 *'), 8.64e15 - 1_000));
    expect(timelines.nextDueAt).toBe(Infinity);
    expect(timelines.due(8.64e15).live).toEqual([]);
  });
});
