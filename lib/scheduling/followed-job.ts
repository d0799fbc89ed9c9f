import type { Declarations, RegisteredJob } from '../discovery/known-jobs.js';
import { compileSchedule } from '../domain/schedule/schedule.js';
import { SchedulerError } from '../errors/scheduler.error.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { problemsOfRetention } from '../options/retention.js';
import { storedDefinition } from '../options/run-time-job.js';
import type { StoredJob } from '../store/jobs/stored-job.js';

/** What an instance makes of a job as the database has it. */
export type Followed =
  /** It is scheduled here, with the expression and zone that are stored, whatever the code says. */
  | { readonly kind: 'scheduled'; readonly job: RegisteredJob }
  /** Its occurrences are decided under another name. */
  | { readonly kind: 'waiting'; readonly job: RegisteredJob }
  /** Stored by a person or a newer version, in a way that this one can't read: others may run it. */
  | { readonly kind: 'unreadable'; readonly problem: string }
  /** Somebody else's, or nobody's. */
  | { readonly kind: 'none' };

/** @param declared what the code of this instance declares under the name, if it does */
export function followedJob(
  stored: StoredJob,
  declared: RegisteredJob | undefined,
  handlers: Declarations['handlers'],
  { jobDefaults, retentionMs }: Pick<ResolvedSchedulerOptions, 'jobDefaults' | 'retentionMs'>,
): Followed {
  if (stored.removed) return { kind: 'none' };
  try {
    if (!stored.runTime) return declared ? followDeclared(stored, declared) : { kind: 'none' };
    const found = handlers.get(stored.runTime.handler);
    if (!found || stored.yieldsTo !== null) return { kind: 'none' };
    const { name, cron, timeZone, runTime } = stored;
    const definition = storedDefinition({ name, cron, options: { ...runTime.options, timeZone }, data: runTime.data }, found.declaredBy, jobDefaults);
    const [problem] = problemsOfRetention(definition, retentionMs);
    if (problem !== undefined) return { kind: 'unreadable', problem };
    return { kind: 'scheduled', job: { definition, handler: found.handler } };
  } catch (error) {
    if (!(error instanceof SchedulerError)) throw error;
    return { kind: 'unreadable', problem: error.message };
  }
}

function followDeclared(stored: StoredJob, declared: RegisteredJob): Followed {
  if (stored.yieldsTo !== null) return { kind: 'waiting', job: declared };
  if (isAsDeclared(stored, declared)) return { kind: 'scheduled', job: declared };
  const schedule = compileSchedule(stored.cron, stored.timeZone, stored.name, stored.calendar);
  // The schedule that holds says who fires it; only one that is external falls back on itself.
  const fallbackMs = schedule.isExternal ? declared.definition.fallbackMs : null;
  return { kind: 'scheduled', job: { ...declared, definition: { ...declared.definition, schedule, fallbackMs } } };
}

/** True when the job has the name and the schedule that this instance's code declares. */
export function isAsDeclared(stored: StoredJob, { definition: { schedule } }: RegisteredJob): boolean {
  const { cron, timeZone, calendar, yieldsTo } = stored;
  return yieldsTo === null && cron === schedule.expression && timeZone === schedule.timeZone && calendar === schedule.calendar;
}
