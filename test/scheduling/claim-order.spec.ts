import { describe, expect, it } from '@jest/globals';
import { ClaimOrder } from '../../lib/scheduling/claim-order.js';
import { aJob } from '../support/job.js';

const jobs = Array.from({ length: 300 }, (_, index) => aJob(`job-${index}`, '* * * * *'));
const together = jobs.map((job) => ({ job, fireTime: 60_000, startsAt: 60_000 }));
const first = (instanceId: string, count: number) => new ClaimOrder(instanceId).sort(together).slice(0, count).map(({ job }) => job.name);

describe('trap 2: the order of claims', () => {
  it('is the same for an instance each time, and another for another', () => {
    expect(first('A', 300)).toEqual(first('A', 300));
    const shared = first('A', 100).filter((name) => first('B', 100).includes(name));
    expect(shared.length).toBeLessThan(60);
  });

  it('is by age', () => {
    const late = { job: aJob('late', '* * * * *'), fireTime: 0, startsAt: 0 };
    expect(new ClaimOrder('A').sort([...together, late])[0]).toBe(late);
  });

  it('G14: takes the first of each job before the second of any', () => {
    const job = aJob('late', '* * * * * *');
    const late = Array.from({ length: 60 }, (_, second) => ({ job, fireTime: second * 1_000, startsAt: second * 1_000 }));
    const sorted = new ClaimOrder('A').sort([...late, ...together]);
    expect(sorted[0]).toBe(late[0]);
    expect(sorted.indexOf(late[1]!)).toBe(301);
    expect(sorted.slice(-59)).toEqual(late.slice(1));
  });
});
