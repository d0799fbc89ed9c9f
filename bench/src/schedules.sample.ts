import { performance } from 'node:perf_hooks';
import { Temporal } from 'temporal-polyfill';
import { KnownJobs } from '../../dist/lib/jobs/known-jobs.js';
import { parseCronExpression } from '../../dist/lib/cron/cron-expression.js';
import { jobLine } from '../../dist/lib/observe/job-wording.js';
import { JobCursor, JobCursors } from '../../dist/lib/jobs/job-cursors.js';
import { declarations, jobOf, type Declaration } from './jobs.js';

/** What one process needed. */
export interface SchedulesSample {
  readonly millis: number;
  /** Of the whole process, after it. */
  readonly megabytes: number;
}

/**
 * Everything between the decorators and the first tick, but for the database: also the line that the log has of each
 * job.
 */
function all(jobs: readonly Declaration[], now: Date): void {
  const definitions = jobs.map(jobOf);
  new KnownJobs().declare({
    jobs: definitions.map((definition) => ({ definition, handler: async () => {} })),
    handlers: new Map(),
  });
  const cursors = new JobCursors();
  for (const job of definitions) cursors.set(new JobCursor(job, now.getTime()));
  if (!(cursors.nextDueAt > now.getTime())) throw new Error('The next instants are not known.');
  for (const job of definitions) if (!jobLine(job, now).includes(job.name)) throw new Error('A job is not named.');
}

/** No expression can be scheduled unread, and in no zone without its next change of the clock. */
function least(jobs: readonly Declaration[], now: Date): void {
  for (const { expression, name } of jobs) parseCronExpression(expression, { jobName: name });
  const instant = Temporal.Instant.fromEpochMilliseconds(now.getTime());
  for (const timeZone of new Set(jobs.map((job) => job.timeZone)))
    instant.toZonedDateTimeISO(timeZone).getTimeZoneTransition('next');
}

const [kind, count] = process.argv.slice(2);
const jobs = declarations(Number(count));
const startedAt = performance.now();
(kind === 'all' ? all : least)(jobs, new Date());
const millis = performance.now() - startedAt;
globalThis.gc?.();
console.log(JSON.stringify({ millis, megabytes: process.memoryUsage.rss() / 1e6 } satisfies SchedulesSample));
