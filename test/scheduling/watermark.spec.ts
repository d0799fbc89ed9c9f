import { beforeEach, describe, expect, it } from '@jest/globals';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { JobCursor, JobCursors } from '../../lib/jobs/job-cursors.js';
import { WatermarkService } from '../../lib/jobs/watermark.service.js';
import type { JobScheduleStore, Watermark } from '../../lib/jobs/job-schedule.store.js';
import { aJob } from '../support/job.js';

const at = (time: string) => Date.parse(`2026-03-10T${time}Z`);
const aTimeline = (name: string, decided = '10:00:00') => new JobCursor(aJob(name, '* * * * *'), at(decided));

let cursors: JobCursors;
let watermarks: WatermarkService;
let written: string[][];
let whileWriting: () => void;

beforeEach(() => {
  written = [];
  whileWriting = () => {};
  cursors = new JobCursors();
  const remember = async (moved: readonly Watermark[]) => {
    written.push(
      moved.map(({ job, decidedUntil }) => `${job.name} ${new Date(decidedUntil).toISOString().slice(11, 19)}`),
    );
    whileWriting();
  };
  watermarks = new WatermarkService(cursors, { remember } as unknown as JobScheduleStore, new SchedulerEvents());
});

describe('watermarks', () => {
  it('are written of the jobs that moved, once, and not at all when none has', async () => {
    const [moving, still] = [aTimeline('moving'), aTimeline('still')];
    cursors.set(moving);
    cursors.set(still);
    await watermarks.remember();
    moving.decideUntil(at('10:01:00'));
    moving.decideUntil(at('10:02:00'));
    await watermarks.remember();
    await watermarks.remember();
    expect(written).toEqual([['moving 10:02:00']]);
  });

  it('are written again when the job moved on while they were written', async () => {
    const cursor = aTimeline('job');
    cursors.set(cursor);
    cursor.decideUntil(at('10:01:00'));
    whileWriting = () => cursor.decideUntil(at('10:02:00'));
    await watermarks.remember();
    whileWriting = () => {};
    await watermarks.remember();
    await watermarks.remember();
    expect(written).toEqual([['job 10:01:00'], ['job 10:02:00']]);
  });

  it('are written later when the database did not take them', async () => {
    const cursor = aTimeline('job');
    cursors.set(cursor);
    cursor.decideUntil(at('10:01:00'));
    whileWriting = () => {
      throw new Error('gone');
    };
    await expect(watermarks.remember()).rejects.toThrow('gone');
    whileWriting = () => {};
    await watermarks.remember();
    expect(written).toEqual([['job 10:01:00'], ['job 10:01:00']]);
  });

  it('are those of the cursor a job has now, not of the one it had', async () => {
    const [old, renewed] = [aTimeline('job'), aTimeline('job', '09:00:00')];
    cursors.set(old);
    old.decideUntil(at('10:01:00'));
    whileWriting = () => {
      cursors.set(renewed);
      old.decideUntil(at('10:02:00'));
      renewed.decideUntil(at('09:30:00'));
    };
    await watermarks.remember();
    whileWriting = () => {};
    await watermarks.remember();
    expect(written).toEqual([['job 10:01:00'], ['job 09:30:00']]);
  });

  it('are not written of a job that was taken out', async () => {
    const cursor = aTimeline('job');
    cursors.set(cursor);
    cursor.decideUntil(at('10:01:00'));
    cursors.delete('job');
    cursor.decideUntil(at('10:02:00'));
    await watermarks.remember();
    expect(written).toEqual([]);
  });
});
