import { expect, it } from '@jest/globals';
import { parseCronExpression, SharedValues } from '../../lib/cron/cron-expression.js';

it('what was made first for a key is given to all that ask for it, up to so many keys', () => {
  const shared = new SharedValues<object>(1);
  const first = shared.of('a', () => ({}));
  expect(shared.of('a', () => ({}))).toBe(first);
  const other = shared.of('b', () => ({}));
  expect(shared.of('b', () => ({}))).not.toBe(other);
});

it('expressions share what they have alike, and an H is read for each job', () => {
  const [one, other] = ['5 4 * * MON-FRI', '*/10 4 * * 1-5'].map((expression) => parseCronExpression(expression));
  expect(other!.hours).toBe(one!.hours);
  expect(other!.days).toBe(one!.days);
  expect(parseCronExpression('5 4 * * MON-FRI')).toBe(one);
  expect(
    new Set(['a', 'b', 'c', 'd'].map((jobName) => parseCronExpression('H * * * *', { jobName }).minutes[0])).size,
  ).toBeGreaterThan(1);
  expect(() => parseCronExpression('H * * * *')).toThrow(/needs the name of a job/);
});
