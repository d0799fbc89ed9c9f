import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { compileSchedule } from '../../lib/cron/schedule.js';
import { isMissed, missedUntil } from '../../lib/jobs/job-cursors.js';
import { resolveJob } from '../../lib/options/resolve-job.js';
import type { DistributedCronOptions } from '../../lib/options/job-definition.js';
import { aJob } from '../support/job.js';
import { SimulatedJob } from '../support/simulated-job.js';

const at = (time: string) => Date.parse(`2026-03-10T${time}Z`);
const jobOf = (expression: string, options: DistributedCronOptions = {}) =>
  resolveJob({ expression, options, defaultName: 'Test.job', declaredBy: 'Test.job', defaults: {} });

describe('an occurrence is missed', () => {
  it.each<[string, DistributedCronOptions, string, string]>([
    ['when the following one is due', {}, '*/5 * * * * *', '5s'],
    ['when the following one is due', {}, '*/20 * * * * *', '20s'],
    ['when the following one is due', {}, '* * * * *', '60s'],
    ['after two minutes at the latest', {}, '*/5 * * * *', '120s'],
    ['after two minutes at the latest', {}, '0 10 * * *', '120s'],
    ['after five seconds at the earliest', {}, '* * * * * *', '5s'],
    ['by the gap to the following one, not by another gap of the expression', {}, '0,1 10 * * *', '60s'],
    ['later by the jitter', { jitter: '3s' }, '*/10 * * * * *', '13s'],
    ['later by the fallback', { trigger: 'external', fallback: '1m' }, '*/10 * * * * *', '70s'],
    ['when the catch-up window ends, if that is sooner', { catchUpWindow: '30s' }, '0 10 * * *', '30s'],
    ['when its lateAfter says so', { lateAfter: '2m' }, '*/5 * * * * *', '120s'],
    ['when its lateAfter says so', { lateAfter: '1s' }, '0 10 * * *', '1s'],
  ])('%s: %j "%s" after %s', (_, options, expression, after) => {
    const job = jobOf(expression, options);
    const [fireTime, edge] = [at('10:00:00'), at('10:00:00') + Number.parseInt(after, 10) * 1_000];
    expect([edge - 1, edge].map((now) => isMissed(job, fireTime, now))).toEqual([false, true]);
  });

  it('by one rule, whether each is asked about or all at once', () => {
    const expressions = [
      '* * * * * *',
      '*/3 * * * * *',
      '0,1 * * * * *',
      '0,7,50 * * * * *',
      '* * * * *',
      '0,1 * * * *',
    ];
    fc.assert(
      fc.property(
        fc.constantFrom(...expressions, '0 2 * * *', '*/30 1-3 * * *'),
        fc.constantFrom('UTC', 'Europe/Berlin'),
        fc.integer({ min: 0, max: 400_000_000 }).map((value) => Date.parse('2026-03-29T00:00:00Z') + value / 10),
        fc.constantFrom(null, null, 1_000, 120_000),
        fc.constantFrom(0, 0, 4_000),
        fc.constantFrom(86_400_000, 30_000),
        (expression, zone, now, lateAfterMs, jitterMs, catchUpWindowMs) => {
          const schedule = compileSchedule(expression, zone);
          const job = { ...aJob('job', '* * * * *', { lateAfterMs, jitterMs, catchUpWindowMs }), schedule };
          const until = missedUntil(now, job);
          const due = schedule.between(now - 300_000, now);
          expect(due.filter((fireTime) => isMissed(job, fireTime, now))).toEqual(
            due.filter((fireTime) => fireTime <= until),
          );
        },
      ),
    );
  });
});

describe('a job that was stopped for a while, and says nothing about it', () => {
  /** What starts after a stop, at the moment of the return. */
  const startsAfterStop = (expression: string, from: string, back: string, options: DistributedCronOptions = {}) => {
    const job = new SimulatedJob(jobOf(expression, options), at(from), () => 0);
    job.start(2);
    job.stopAll();
    job.start(2);
    job.tick(at(back));
    return job.starts().map(({ slot }) => new Date(slot).toISOString().slice(11, 19));
  };

  it.each([
    ['*/5 * * * * *', '10:00:00', '10:01:17', ['10:01:15']],
    ['*/5 * * * * *', '10:00:00', '10:01:15', ['10:01:15']],
    ['*/10 * * * * *', '10:00:00', '10:09:59', ['10:09:50']],
    ['* * * * *', '10:00:00', '10:01:59', ['10:01:00']],
    ['* * * * *', '10:00:00', '10:05:30', ['10:05:00']],
    ['0 * * * *', '09:30:00', '10:01:30', ['10:00:00']],
    ['0 * * * *', '09:30:00', '10:30:00', ['10:00:00']],
    ['0 * * * *', '07:30:00', '12:30:00', ['12:00:00']],
  ])('runs once when it is back: "%s" from %s to %s', (expression, from, back, starts) => {
    expect(startsAfterStop(expression, from, back)).toEqual(starts);
  });

  it('of every second runs what is not five seconds old, and the newest of the rest', () => {
    expect(startsAfterStop('* * * * * *', '10:00:00', '10:01:15')).toEqual(
      ['10', '11', '12', '13', '14', '15'].map((second) => `10:01:${second}`),
    );
  });

  it('runs none of what it missed with skip, and all of it with all', () => {
    expect(startsAfterStop('*/5 * * * * *', '10:00:00', '10:01:17', { missed: 'skip' })).toEqual(['10:01:15']);
    expect(startsAfterStop('*/5 * * * * *', '10:00:00', '10:01:17', { missed: 'all' })).toHaveLength(15);
  });
});
