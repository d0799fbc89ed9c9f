import { describe, expect, it } from '@jest/globals';
import { calendarText } from '../../lib/cron/calendar.js';
import { compileSchedule } from '../../lib/cron/schedule.js';
import { JobTimeline } from '../../lib/jobs/job-timeline.js';
import { aJob } from '../support/job.js';

const at = (time: string) => Date.parse(`2026-03-10T${time}Z`);
const MINUTELY = aJob('job', '* * * * *');
const fireTimes = (timeline: JobTimeline, now: number) => timeline.due(now).map(({ fireTime }) => fireTime);

describe('a timeline', () => {
  it('trap 3: a timer that wakes early finds nothing, and the same fire time afterwards', () => {
    const timeline = new JobTimeline(MINUTELY, at('10:00:00'));
    expect(fireTimes(timeline, at('10:01:00') - 20)).toEqual([]);
    expect(fireTimes(timeline, at('10:01:00'))).toEqual([at('10:01:00')]);
  });

  it('trap 3: the next follows the last decided one, not the clock', () => {
    const timeline = new JobTimeline(MINUTELY, at('10:00:00'));
    timeline.decideUntil(at('10:01:00'));
    expect(timeline.dueAt).toBe(at('10:02:00'));
    timeline.decideUntil(at('10:01:00'));
    timeline.decideUntil(at('09:00:00'));
    expect(timeline.dueAt).toBe(at('10:02:00'));
  });

  it('trap 4: after a block every late occurrence is there, oldest first', () => {
    const timeline = new JobTimeline(MINUTELY, at('10:00:00'));
    expect(fireTimes(timeline, at('10:03:30'))).toEqual([at('10:01:00'), at('10:02:00'), at('10:03:00')]);
  });

  it('tells late from missed', () => {
    const timeline = new JobTimeline(MINUTELY, at('10:00:00'));
    expect(timeline.isMissed(at('10:02:59'))).toBe(false);
    expect(timeline.isMissed(at('10:03:00'))).toBe(true);
  });

  it('of a job that is fired from outside has nothing due, unless it falls back on its schedule', () => {
    const schedule = compileSchedule('* * * * *', 'UTC', 'job', calendarText({ trigger: 'external' }));
    const never = new JobTimeline(aJob('job', '* * * * *', { schedule }), at('10:00:00'));
    expect([never.dueAt, never.isMissed(at('12:00:00')), fireTimes(never, at('12:00:00'))]).toEqual([null, false, []]);
    const timeline = new JobTimeline(
      aJob('job', '* * * * *', { schedule, fallbackMs: 300_000, jitterMs: 10_000 }),
      at('10:00:00'),
    );
    expect(timeline.dueAt).toBe(at('10:06:00'));
    expect(fireTimes(timeline, at('10:07:59'))).toEqual([at('10:01:00'), at('10:02:00')]);
    expect([timeline.isMissed(at('10:07:59')), timeline.isMissed(at('10:08:00'))]).toEqual([false, true]);
  });

  it('starts a jittered job later, always by the same, and keeps its fire time', () => {
    const job = aJob('job', '* * * * *', { jitterMs: 30_000 });
    const timeline = new JobTimeline(job, at('10:00:00'));
    const delay = timeline.dueAt! - at('10:01:00');
    expect(delay).toBeGreaterThan(0);
    expect(fireTimes(timeline, timeline.dueAt! - 1)).toEqual([]);
    expect(fireTimes(timeline, timeline.dueAt!)).toEqual([at('10:01:00')]);
    timeline.decideUntil(at('10:01:00'));
    expect(timeline.dueAt! - at('10:02:00')).toBe(delay);
  });

  it('does not go through a year of seconds at once', () => {
    const timeline = new JobTimeline(aJob('job', '* * * * * *'), at('10:00:00'));
    expect(timeline.due(at('10:00:00') + 365 * 86_400_000).length).toBeLessThan(100);
  });

  it('never holds an occurrence back until the next one: the delay is a share of the gap', () => {
    const job = aJob('job', '0,5 * * * *', { jitterMs: 3_600_000 });
    const timeline = new JobTimeline(job, at('09:59:00'));
    const starts = [0, 1, 2].map(() => {
      const startsAt = timeline.dueAt!;
      timeline.decideUntil(timeline.due(startsAt)[0]!.fireTime);
      return startsAt;
    });
    expect(starts[0]! - at('10:00:00')).toBeLessThan(300_000);
    expect(starts[1]! - at('10:05:00')).toBeGreaterThan(300_000);
    expect(starts[1]!).toBeLessThan(at('11:00:00'));
    expect(starts[2]! - at('11:00:00')).toBe(starts[0]! - at('10:00:00'));
  });

  it('is the same whether it came there step by step or starts there', () => {
    const job = aJob('job', '*/20 * * * * *', { jitterMs: 30_000 });
    const walked = new JobTimeline(job, at('10:00:00'));
    for (let turn = 0; turn < 7; turn++) {
      const started = new JobTimeline(job, walked.decidedUntil);
      const now = at('10:04:00');
      expect(walked.due(now)).toEqual(started.due(now));
      expect(walked.dueAt).toBe(started.dueAt);
      walked.decideUntil(turn % 2 === 0 ? walked.dueAt! : walked.decidedUntil + 7_000);
    }
  });

  it('tells of every move, and of nothing else', () => {
    const timeline = new JobTimeline(MINUTELY, at('10:00:00'));
    let moves = 0;
    timeline.whenMoved(() => (moves += 1));
    timeline.decideUntil(at('10:00:30'));
    timeline.decideUntil(at('10:00:30'));
    timeline.due(at('10:05:00'));
    expect(moves).toBe(1);
  });
});
