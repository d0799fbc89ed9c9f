import { describe, expect, it } from '@jest/globals';
import { JobTimeline } from '../../lib/scheduling/job-timeline.js';
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
});
