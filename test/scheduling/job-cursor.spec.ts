import { describe, expect, it } from '@jest/globals';
import { calendarText } from '../../lib/cron/calendar.js';
import { compileSchedule } from '../../lib/cron/schedule.js';
import { JobCursor } from '../../lib/jobs/job-cursors.js';
import { aJob } from '../support/job.js';

const at = (time: string) => Date.parse(`2026-03-10T${time}Z`);
const MINUTELY = aJob('job', '* * * * *');
const fireTimes = (cursor: JobCursor, now: number) => cursor.due(now).map(({ fireTime }) => fireTime);

describe('a cursor', () => {
  it('trap 3: a timer that wakes early finds nothing, and the same fire time afterwards', () => {
    const cursor = new JobCursor(MINUTELY, at('10:00:00'));
    expect(fireTimes(cursor, at('10:01:00') - 20)).toEqual([]);
    expect(fireTimes(cursor, at('10:01:00'))).toEqual([at('10:01:00')]);
  });

  it('trap 3: the next follows the last decided one, not the clock', () => {
    const cursor = new JobCursor(MINUTELY, at('10:00:00'));
    cursor.decideUntil(at('10:01:00'));
    expect(cursor.dueAt).toBe(at('10:02:00'));
    cursor.decideUntil(at('10:01:00'));
    cursor.decideUntil(at('09:00:00'));
    expect(cursor.dueAt).toBe(at('10:02:00'));
  });

  it('trap 4: after a block every late occurrence is there, oldest first', () => {
    const cursor = new JobCursor(MINUTELY, at('10:00:00'));
    expect(fireTimes(cursor, at('10:03:30'))).toEqual([at('10:01:00'), at('10:02:00'), at('10:03:00')]);
  });

  it('tells late from missed', () => {
    const cursor = new JobCursor(MINUTELY, at('10:00:00'));
    expect(cursor.isMissed(at('10:02:59'))).toBe(false);
    expect(cursor.isMissed(at('10:03:00'))).toBe(true);
  });

  it('takes an occurrence for missed once the following one is due, where no lateAfter is said', () => {
    const cursor = new JobCursor(aJob('job', '0,20 * * * * *', { lateAfterMs: null }), at('10:00:00'));
    expect(['10:00:39', '10:00:59', '10:01:00'].map((now) => cursor.isMissed(at(now)))).toEqual([false, false, true]);
    cursor.decideUntil(at('10:00:20'));
    expect(['10:01:19', '10:01:20'].map((now) => cursor.isMissed(at(now)))).toEqual([false, true]);
  });

  it('of a job that is fired from outside has nothing due, unless it falls back on its schedule', () => {
    const schedule = compileSchedule('* * * * *', 'UTC', 'job', calendarText({ trigger: 'external' }));
    const never = new JobCursor(aJob('job', '* * * * *', { schedule }), at('10:00:00'));
    expect([never.dueAt, never.isMissed(at('12:00:00')), fireTimes(never, at('12:00:00'))]).toEqual([null, false, []]);
    const cursor = new JobCursor(
      aJob('job', '* * * * *', { schedule, fallbackMs: 300_000, jitterMs: 10_000 }),
      at('10:00:00'),
    );
    expect(cursor.dueAt).toBe(at('10:06:00'));
    expect(fireTimes(cursor, at('10:07:59'))).toEqual([at('10:01:00'), at('10:02:00')]);
    expect([cursor.isMissed(at('10:07:59')), cursor.isMissed(at('10:08:00'))]).toEqual([false, true]);
  });

  it('starts a jittered job later, always by the same, and keeps its fire time', () => {
    const job = aJob('job', '* * * * *', { jitterMs: 30_000 });
    const cursor = new JobCursor(job, at('10:00:00'));
    const delay = cursor.dueAt! - at('10:01:00');
    expect(delay).toBeGreaterThan(0);
    expect(fireTimes(cursor, cursor.dueAt! - 1)).toEqual([]);
    expect(fireTimes(cursor, cursor.dueAt!)).toEqual([at('10:01:00')]);
    cursor.decideUntil(at('10:01:00'));
    expect(cursor.dueAt! - at('10:02:00')).toBe(delay);
  });

  it('does not go through a year of seconds at once', () => {
    const cursor = new JobCursor(aJob('job', '* * * * * *'), at('10:00:00'));
    expect(cursor.due(at('10:00:00') + 365 * 86_400_000).length).toBeLessThan(100);
  });

  it('never holds an occurrence back until the next one: the delay is a share of the gap', () => {
    const job = aJob('job', '0,5 * * * *', { jitterMs: 3_600_000 });
    const cursor = new JobCursor(job, at('09:59:00'));
    const starts = [0, 1, 2].map(() => {
      const startsAt = cursor.dueAt!;
      cursor.decideUntil(cursor.due(startsAt)[0]!.fireTime);
      return startsAt;
    });
    expect(starts[0]! - at('10:00:00')).toBeLessThan(300_000);
    expect(starts[1]! - at('10:05:00')).toBeGreaterThan(300_000);
    expect(starts[1]!).toBeLessThan(at('11:00:00'));
    expect(starts[2]! - at('11:00:00')).toBe(starts[0]! - at('10:00:00'));
  });

  it('is the same whether it came there step by step or starts there', () => {
    const job = aJob('job', '*/20 * * * * *', { jitterMs: 30_000 });
    const walked = new JobCursor(job, at('10:00:00'));
    for (let turn = 0; turn < 7; turn++) {
      const started = new JobCursor(job, walked.decidedUntil);
      const now = at('10:04:00');
      expect(walked.due(now)).toEqual(started.due(now));
      expect(walked.dueAt).toBe(started.dueAt);
      walked.decideUntil(turn % 2 === 0 ? walked.dueAt! : walked.decidedUntil + 7_000);
    }
  });

  it('tells of every move, and of nothing else', () => {
    const cursor = new JobCursor(MINUTELY, at('10:00:00'));
    let moves = 0;
    cursor.whenMoved(() => (moves += 1));
    cursor.decideUntil(at('10:00:30'));
    cursor.decideUntil(at('10:00:30'));
    cursor.due(at('10:05:00'));
    expect(moves).toBe(1);
  });
});
