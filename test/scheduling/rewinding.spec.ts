import { beforeEach, describe, expect, it } from '@jest/globals';
import type { JobDefinition } from '../../lib/options/job-definition.js';
import type { DecidedSpan } from '../../lib/jobs/undecided.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import type { SchedulerEvent } from '../../lib/observe/scheduler-event.js';
import { JobCursor, JobCursors } from '../../lib/jobs/job-cursors.js';
import { Rewinding } from '../../lib/jobs/watermark.service.js';
import type { JobScheduleStore } from '../../lib/jobs/job-schedule.store.js';
import type { StoredJob } from '../../lib/jobs/stored-job.js';
import { aJob } from '../support/job.js';

const at = (time: string) => Date.parse(`2026-03-10T${time}Z`);
const own = (...times: string[]): DecidedSpan[] => times.map((time) => ({ from: at(time), until: at(time) }));

let cursors: JobCursors;
let heard: SchedulerEvent[];
let asked: string[];
let whileAsked: () => void;
beforeEach(() => {
  cursors = new JobCursors();
  [heard, asked, whileAsked] = [[], [], () => {}];
});

/** A job that is decided here up to 10:05, and stored as decided up to 10:00. */
async function rewinds(
  rows: DecidedSpan[],
  job: JobDefinition = aJob('job', '* * * * *'),
  stored = '10:00:00',
): Promise<JobCursor> {
  cursors.set(new JobCursor(job, at('10:05:00')));
  const events = new SchedulerEvents();
  events.subscribe((event) => heard.push(event));
  const decided = async (jobs: readonly { name: string }[]) => {
    asked.push(...jobs.map(({ name }) => name));
    whileAsked();
    return new Map(jobs.map(({ name }) => [name, rows]));
  };
  await new Rewinding(cursors, { decided } as unknown as JobScheduleStore, events).rewind([
    { name: job.name, decidedUntil: at(stored) } as StoredJob,
  ]);
  return cursors.get(job.name)!;
}

describe('a cursor that is ahead of the stored watermark', () => {
  it('goes back to the first occurrence that has no row, which is due again', async () => {
    const cursor = await rewinds(own('10:01:00', '10:02:00', '10:05:00'));
    expect(cursor.dueAt).toBe(at('10:03:00'));
    expect(heard).toMatchObject([
      { type: 'job.rewound', jobName: 'job', from: new Date(at('10:03:00')), until: new Date(at('10:04:00')) },
    ]);
  });

  it('stays where all have rows, of their own or in a gap', async () => {
    const cursor = await rewinds([{ from: at('10:01:00'), until: at('10:03:00') }, ...own('10:04:00', '10:05:00')]);
    expect(cursor.dueAt).toBe(at('10:06:00'));
    expect(heard).toEqual([]);
  });

  it('that others have moved on beyond needs no look', async () => {
    await rewinds([], aJob('job', '* * * * *'), '10:07:00');
    expect(asked).toEqual([]);
  });

  it('of another schedule by now is not put back', async () => {
    const next = new JobCursor(aJob('job', '*/2 * * * *'), at('10:06:00'));
    whileAsked = () => cursors.set(next);
    expect(await rewinds([])).toBe(next);
    expect(heard).toEqual([]);
  });

  it('of a job whose occurrences are delivered from outside has none to decide', async () => {
    const job = aJob('job', '* * * * *');
    await rewinds([], { ...job, schedule: Object.create(job.schedule, { isExternal: { value: true } }) });
    expect(heard).toEqual([]);
  });
});
