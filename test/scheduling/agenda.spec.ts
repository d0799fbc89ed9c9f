import { describe, expect, it } from '@jest/globals';
import { Agenda } from '../../lib/scheduling/agenda.js';
import type { Candidate } from '../../lib/execution/claim.service.js';
import { aJob } from '../support/job.js';

const jobs = new Map(['a', 'b', 'c', 'd'].map((name) => [name, aJob(name, '* * * * * *')]));

/** `a1` is the first occurrence of the job `a`. */
const candidate = (name: string): Candidate => ({ job: jobs.get(name[0]!)!, fireTime: Number(name[1]), startsAt: Number(name[1]) });
const nameOf = ({ job, fireTime }: Candidate) => `${job.name}${fireTime}`;

function agendaOf(names: string[], isOpen: (name: string) => boolean = () => true): { agenda: Agenda; take: (most: number) => string[]; rest: () => string[] } {
  const agenda = new Agenda(names.map(candidate), (one) => isOpen(nameOf(one)));
  return { agenda, take: (most) => agenda.take(most).map(nameOf), rest: () => agenda.rest().map(nameOf) };
}

describe('to look at the rest of an agenda', () => {
  it('takes nothing out, also where some of it need not be tried any more', () => {
    const { take, rest } = agendaOf(['a1', 'b1', 'c1', 'd1'], (name) => name !== 'b1' && name !== 'c1');
    expect(rest()).toEqual(['a1', 'd1']);
    expect(take(9)).toEqual(['a1', 'd1']);
  });

  it('leaves for the next pass, once, what follows of a job that could not be decided', () => {
    const { agenda, take, rest } = agendaOf(['a1', 'b1', 'a2', 'c1', 'a3']);
    const taken = agenda.take(1);
    agenda.putBack(taken, new Set(['a']));
    expect(rest()).toEqual(['b1', 'c1']);
    expect(take(1)).toEqual(['b1']);
    expect(rest()).toEqual(['c1']);
    expect(take(9)).toEqual(['c1']);
    agenda.startPass();
    expect(take(9)).toEqual(['a1', 'a2', 'a3']);
  });
});
