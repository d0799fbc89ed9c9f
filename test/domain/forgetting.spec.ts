import { describe, expect, it } from '@jest/globals';
import { forgettable, monthsToMake, type AgedPartition } from '../../lib/options/retention.js';
import { problemsOfRetention } from '../../lib/options/retention.js';
import { aJob } from '../support/job.js';

const DAY = 86_400_000;
const at = (text: string) => Date.parse(text);
const partition = (
  table: AgedPartition['table'],
  month: number,
  state: AgedPartition['state'] = 'attached',
): AgedPartition => ({
  table,
  name: `${table} ${month}`,
  from: Date.UTC(2026, month - 1, 1),
  until: Date.UTC(2026, month, 1),
  state,
  droppedSince: null,
});

describe('what is forgotten', () => {
  it('ended before the instant, to the millisecond', () => {
    const april = partition('job_runs', 4);
    expect(forgettable([april], at('2026-05-01T00:00:00Z'))).toEqual([april]);
    expect(forgettable([april], at('2026-05-01T00:00:00Z') - 1)).toEqual([]);
  });

  it('goes by the month, and of a month by its runs, pages and receipts; what was begun goes on, however young', () => {
    const all = [
      partition('receipts', 3),
      partition('receipts', 9, 'detached'),
      partition('job_runs', 4),
      partition('job_pages', 3),
      partition('job_runs', 3),
      partition('job_runs', 9),
    ];
    expect(forgettable(all, at('2026-06-01T00:00:00Z')).map(({ name }) => name)).toEqual([
      'job_runs 3',
      'job_pages 3',
      'receipts 3',
      'job_runs 4',
      'receipts 9',
    ]);
  });
});

describe('the months that are made', () => {
  const made = (now: string, retentionMs: number | null) => {
    const { over, toCome } = monthsToMake(at(now), retentionMs);
    return [over, toCome].map((months) => months.map((month) => month.toISOString().slice(0, 7)));
  };

  it('are the last one, this one and three to come', () => {
    expect(made('2026-11-30T12:00:00Z', null)).toEqual([['2026-10'], ['2026-11', '2026-12', '2027-01', '2027-02']]);
  });

  it('are none that would be dropped on the same day', () => {
    expect(made('2026-12-02T23:59:59Z', 2 * DAY)[0]).toEqual(['2026-11']);
    expect(made('2026-12-03T00:00:00Z', 2 * DAY)[0]).toEqual([]);
  });
});

describe('a retention', () => {
  const problems = (retentionMs: number, changes = {}) =>
    problemsOfRetention(aJob('job', '0 3 * * *', changes), retentionMs);

  it('is longer than what may still run by a day', () => {
    expect(problems(2 * DAY)).toEqual([]);
    expect(problems(2 * DAY - 1)).toEqual([expect.stringContaining('what is forgotten would run again')]);
  });

  it('is as long as the last success may be ago: a yearly job would be overdue the day that it is forgotten', () => {
    const yearly = { expectSuccessWithinMs: 370 * DAY };
    expect(problems(371 * DAY, yearly)).toEqual([]);
    expect(problems(90 * DAY, yearly)).toEqual([
      'Test.job: job "job": expectSuccessWithin (370d) with the catchUpWindow (1d) is longer than the retention (90d): the success that is looked for would be forgotten. Keep history longer, or expect one sooner.',
    ]);
  });
});
