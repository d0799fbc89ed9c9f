import { Inject, Injectable } from '@nestjs/common';
import { isExternalCalendar } from '../cron/calendar.js';
import { compileSchedule, type Schedule } from '../cron/schedule.js';
import { SchedulerError } from '../errors/errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { JobDefinition } from '../options/job-definition.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { problemsOfRetention } from '../options/retention.js';
import { storedDefinition } from '../options/run-time-job.js';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { JobCursor, JobCursors } from './job-cursors.js';
import { type Declarations, KnownJobs, type RegisteredJob } from './known-jobs.js';
import type { StoredJob } from './stored-job.js';

/**
 * What this instance makes of the jobs as the database has them: what it knows, what it schedules, and what it tells
 * about it.
 */
@Injectable()
export class FollowedSchedules {
  /** Jobs that have another schedule, or another name, than the code here declares. */
  private readonly contested = new Map<string, StoredJob>();
  /** Each job as it is followed here. */
  private readonly taken = new Map<string, StoredJob>();
  /** Raised when something is contested that was not, or in another way. */
  contests = 0;
  private starting = true;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    private readonly known: KnownJobs,
    private readonly cursors: JobCursors,
    private readonly events: SchedulerEvents,
  ) {}

  /** What the code here declares otherwise than the database has it, as it declares it. */
  get contestedJobs(): JobDefinition[] {
    return [...this.contested.keys()].map((name) => this.known.declaredJob(name)!.definition);
  }

  /** The start is over: tells what holds against the code here, or back, and from now on every change. */
  started(): void {
    for (const stored of this.contested.values()) this.tell('job.contested', stored);
    for (const stored of this.taken.values())
      if (isOverridden(stored) && this.known.declaredJob(stored.name)) this.tell('job.overridden', stored);
    for (const { name, held } of this.taken.values())
      if (held && this.cursors.get(name)) this.events.emit({ type: 'job.held', jobName: name, ...held });
    this.starting = false;
  }

  /** The names of the jobs that are followed here. */
  get names(): string[] {
    return [...this.taken.keys()];
  }

  /** Its row is gone. */
  forget(name: string): void {
    this.taken.delete(name);
    this.contested.delete(name);
    if (!this.known.declaredJob(name)) this.known.drop(name);
    if (this.cursors.delete(name)) this.events.emit({ type: 'job.unscheduled', jobName: name });
  }

  /** Takes a job as it is stored; nothing where that is followed already. */
  take(stored: StoredJob): void {
    const { name } = stored;
    const taken = this.taken.get(name);
    this.taken.set(name, inTheSameTexts(stored, this.known.declaredJob(name)));
    if (taken && isSame(taken, stored)) return;
    this.contests++;
    const before = this.contested.get(name);
    const declared = this.known.declaredJob(name);
    if (declared && !stored.runTime && !isAsDeclared(stored, declared) && !isOverridden(stored))
      this.contested.set(name, stored);
    else this.contested.delete(name);
    const followed = followedJob(stored, declared, this.known.declared.handlers, this.options);
    if (followed.kind === 'scheduled') return this.schedule(followed.job, stored, before);
    const scheduled = this.cursors.delete(name);
    if (followed.kind === 'waiting') this.known.put(followed.job);
    else if (!declared) this.known.drop(name);
    if (followed.kind === 'unreadable')
      this.events.emit({ type: 'job.unreadable', jobName: name, problem: followed.problem });
    else if (scheduled) this.events.emit({ type: 'job.unscheduled', jobName: name });
  }

  private schedule(job: RegisteredJob, stored: StoredJob, contested: StoredJob | undefined): void {
    const last = this.cursors.get(stored.name)?.job.schedule;
    const before = last ? scheduleInWords(last) : contested && wordsOf(contested);
    const schedule = scheduleInWords(job.definition.schedule);
    const was = before === undefined || before === schedule ? null : before;
    this.known.put(job);
    this.cursors.set(new JobCursor(job.definition, stored.decidedUntil));
    if (!this.starting || was !== null)
      this.events.emit({
        type: 'job.scheduled',
        jobName: stored.name,
        schedule,
        was,
        updated: last !== undefined && was === null,
      });
  }

  private tell(type: 'job.contested' | 'job.overridden', stored: StoredJob): void {
    const declared = scheduleInWords(this.known.declaredJob(stored.name)!.definition.schedule);
    this.events.emit({ type, jobName: stored.name, declared, holds: wordsOf(stored) });
  }
}

/** Of what the database sends, thousands of texts are those of the code again: one of each is kept. */
function inTheSameTexts(stored: StoredJob, declared: RegisteredJob | undefined): StoredJob {
  if (!declared || !isAsDeclared(stored, declared)) return stored;
  const { name, schedule } = declared.definition;
  return { ...stored, name, cron: schedule.expression, timeZone: schedule.timeZone };
}

/** A person who edits a row does not raise its revision. */
function isSame(one: StoredJob, other: StoredJob): boolean {
  return (
    one.revision === other.revision &&
    one.cron === other.cron &&
    one.timeZone === other.timeZone &&
    one.calendar === other.calendar &&
    one.overridden === other.overridden &&
    one.yieldsTo === other.yieldsTo &&
    one.removed === other.removed
  );
}

/** An operator's schedule holds: there is nothing to take over. */
function isOverridden({ overridden, yieldsTo, runTime }: StoredJob): boolean {
  return overridden && yieldsTo === null && runTime === null;
}

function wordsOf({ cron, timeZone, calendar, yieldsTo }: StoredJob): string {
  return yieldsTo === null ? inWords(cron, timeZone, isExternalCalendar(calendar)) : `the name "${yieldsTo}"`;
}

function scheduleInWords({ expression, timeZone, isExternal }: Schedule): string {
  return inWords(expression, timeZone, isExternal);
}

function inWords(expression: string, timeZone: string, isExternal: boolean): string {
  return `"${expression}" (${timeZone}${isExternal ? ', delivered from outside' : ''})`;
}

/** What an instance makes of a job as the database has it. */
type Followed =
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
    const definition = storedDefinition(
      { name, cron, options: { ...runTime.options, timeZone }, data: runTime.data },
      found.declaredBy,
      jobDefaults,
    );
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
function isAsDeclared(stored: StoredJob, { definition: { schedule } }: RegisteredJob): boolean {
  const { cron, timeZone, calendar, yieldsTo } = stored;
  return (
    yieldsTo === null &&
    cron === schedule.expression &&
    timeZone === schedule.timeZone &&
    calendar === schedule.calendar
  );
}
