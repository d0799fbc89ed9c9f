import { describe, expect, it } from '@jest/globals';
import { ClaimOrder } from '../../lib/runs/claim-order.js';
import { aJob } from '../support/job.js';

const jobs = Array.from({ length: 300 }, (_, index) => aJob(`job-${index}`, '* * * * *'));
const together = jobs.map((job) => ({ job, fireTime: 60_000, startsAt: 60_000 }));
const first = (instanceId: string, count: number) =>
  new ClaimOrder(instanceId)
    .sort(together)
    .slice(0, count)
    .map(({ job }) => job.name);

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
    const late = Array.from({ length: 60 }, (_, second) => ({
      job,
      fireTime: second * 1_000,
      startsAt: second * 1_000,
    }));
    const sorted = new ClaimOrder('A').sort([...late, ...together]);
    expect(sorted[0]).toBe(late[0]);
    expect(sorted.indexOf(late[1]!)).toBe(301);
    expect(sorted.slice(-59)).toEqual(late.slice(1));
  });
});

describe('whose a job is to try', () => {
  const companyOf = (...ids: string[]) =>
    ids.map((id) => {
      const order = new ClaimOrder(id);
      order.hear(ids);
      return order;
    });

  it('is agreed on without a word: each job is exactly one instance’s, and each has its share', () => {
    const orders = companyOf('A', 'B', 'C');
    const owners = jobs.map((job) => orders.filter((order) => order.isMine(job)).length);
    expect(new Set(owners)).toEqual(new Set([1]));
    for (const order of orders) expect(jobs.filter((job) => order.isMine(job)).length).toBeGreaterThan(60);
  });

  it('changes only for the jobs of an instance that goes', () => {
    const [a, b] = companyOf('A', 'B', 'C');
    const before = jobs.filter((job) => a!.isMine(job));
    a!.hear(['A', 'B']);
    b!.hear(['A', 'B']);
    for (const job of before) expect(a!.isMine(job)).toBe(true);
    expect(jobs.filter((job) => a!.isMine(job) !== b!.isMine(job))).toHaveLength(300);
  });

  it('is everybody’s as long as the others are not known, or this one is not among them', () => {
    expect(jobs.every((job) => new ClaimOrder('A').isMine(job))).toBe(true);
    const alone = new ClaimOrder('A');
    alone.hear(['A']);
    expect(jobs.every((job) => alone.isMine(job))).toBe(true);
  });

  it('comes first', () => {
    const [a] = companyOf('A', 'B', 'C');
    const mine = a!.sort(together).map(({ job }) => a!.isMine(job));
    expect(mine.indexOf(false)).toBe(mine.lastIndexOf(true) + 1);
  });
});

describe('how long what is another’s is left to it', () => {
  const companyOf = (size: number) => {
    const ids = Array.from({ length: size }, (_, index) => `instance-${index}`);
    return ids.map((id) => {
      const order = new ClaimOrder(id);
      order.hear(ids);
      return order;
    });
  };
  const yields = (size: number) =>
    companyOf(size)
      .map((order) => order.yieldMs(jobs[0]!))
      .sort((a, b) => a - b);

  it('is longer for each that comes later', () => {
    expect(yields(1)).toEqual([0]);
    expect(yields(3)).toEqual([0, 20, 150]);
    expect(yields(10)).toEqual([0, 20, 200, 500, 500, 500, 500, 500, 500, 500]);
  });

  it('is as long as it takes for all of them to look twenty times a second together', () => {
    expect(Math.max(...yields(100))).toBe(5_000);
    expect(yields(100).filter((millis) => millis < 5_000)).toEqual([0, 20, 200, 2_000]);
  });
});
