import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Candidate } from '../../lib/jobs/job-cursors.js';
import { Agenda } from '../../lib/runs/agenda.js';
import { aJob } from '../support/job.js';

const JOBS = ['a', 'b', 'c', 'd'].map((name) => aJob(name, '* * * * * *'));

/** In the order of an agenda: the first of each job, then the second. */
const CANDIDATES: Candidate[] = [0, 1, 2].flatMap((turn) =>
  JOBS.map((job) => ({ job, fireTime: turn * 1_000, startsAt: turn * 1_000 })),
);

const nameOf = ({ job, fireTime }: Candidate) => `${job.name}${fireTime / 1_000}`;

describe('an agenda', () => {
  it('names what is left without taking it out, also when some of it need not be tried any more', () => {
    const closed = new Set(['b0', 'c0', 'a1']);
    const agenda = new Agenda(CANDIDATES, (candidate) => !closed.has(nameOf(candidate)));
    const rest = agenda.rest().map(nameOf);
    expect(rest).toEqual(['a0', 'd0', 'b1', 'c1', 'd1', 'a2', 'b2', 'c2', 'd2']);
    expect(agenda.take(Infinity).map(nameOf)).toEqual(rest);
  });

  it('leaves for the next pass, once, what follows of a job that could not be decided', () => {
    const agenda = new Agenda(CANDIDATES.slice(0, 6), () => true);
    agenda.putBack(agenda.take(1), new Set(['a']));
    expect(agenda.rest().map(nameOf)).toEqual(['b0', 'c0', 'd0', 'b1']);
    expect(agenda.take(9).map(nameOf)).toEqual(['b0', 'c0', 'd0', 'b1']);
    agenda.startPass();
    expect(agenda.take(9).map(nameOf)).toEqual(['a0', 'a1']);
  });

  it('gives out everything that is open once, or again after it was put back; of a job nothing behind what is put back', () => {
    const step = fc.record({
      take: fc.integer({ min: 1, max: 5 }),
      stuck: fc.subarray(JOBS.map(({ name }) => name)),
      closed: fc.subarray(CANDIDATES.map(nameOf)),
      look: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const closed = new Set<string>();
        const done = new Set<string>();
        const agenda = new Agenda(CANDIDATES, (candidate) => !closed.has(nameOf(candidate)));
        for (const { take, stuck, closed: closes, look } of steps) {
          agenda.startPass();
          closes.forEach((name) => closed.add(name));
          if (look) agenda.rest();
          const taken = agenda.take(take);
          for (const candidate of taken) {
            expect(closed.has(nameOf(candidate))).toBe(false);
            expect(done.has(nameOf(candidate))).toBe(false);
          }
          const back = new Set(stuck);
          agenda.putBack(taken, back);
          for (const candidate of taken) if (!back.has(candidate.job.name)) done.add(nameOf(candidate));
          for (const candidate of agenda.rest()) expect(back.has(candidate.job.name)).toBe(false);
          const open = CANDIDATES.filter((candidate) => !closed.has(nameOf(candidate)) && !done.has(nameOf(candidate)));
          expect(agenda.isLeft).toBe(open.length > 0);
        }
        agenda.startPass();
        const open = CANDIDATES.map(nameOf).filter((name) => !closed.has(name) && !done.has(name));
        expect(agenda.take(Infinity).map(nameOf).sort()).toEqual(open.sort());
      }),
    );
  });
});
