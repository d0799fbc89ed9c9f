import { Inject, Injectable } from '@nestjs/common';
import { KnownJobs, type RegisteredJob } from '../discovery/known-jobs.js';
import { SCHEDULER_OPTIONS } from '../distributed-scheduler.tokens.js';
import { isExternalCalendar } from '../domain/schedule/calendar.js';
import type { JobDefinition } from '../domain/job-definition.js';
import type { Schedule } from '../domain/schedule/schedule.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import type { StoredJob } from '../store/jobs/stored-job.js';
import { followedJob, isAsDeclared } from './followed-job.js';
import { JobTimeline } from './job-timeline.js';
import { Timelines } from './timelines.js';

/** What this instance makes of the jobs as the database has them: what it knows, what it schedules, and what it tells about it. */
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
    private readonly timelines: Timelines,
    private readonly events: SchedulerEvents,
  ) {}

  /** What the code here declares otherwise than the database has it, as it declares it. */
  get contestedJobs(): JobDefinition[] {
    return [...this.contested.keys()].map((name) => this.known.declaredJob(name)!.definition);
  }

  /** The start is over: tells what holds against the code here, or back, and from now on every change. */
  started(): void {
    for (const stored of this.contested.values()) this.tell('job.contested', stored);
    for (const stored of this.taken.values()) if (isOverridden(stored) && this.known.declaredJob(stored.name)) this.tell('job.overridden', stored);
    for (const { name, held } of this.taken.values()) if (held && this.timelines.get(name)) this.events.emit({ type: 'job.held', jobName: name, ...held });
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
    if (this.timelines.delete(name)) this.events.emit({ type: 'job.unscheduled', jobName: name });
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
    if (declared && !stored.runTime && !isAsDeclared(stored, declared) && !isOverridden(stored)) this.contested.set(name, stored);
    else this.contested.delete(name);
    const followed = followedJob(stored, declared, this.known.declared.handlers, this.options);
    if (followed.kind === 'scheduled') return this.schedule(followed.job, stored, before);
    const scheduled = this.timelines.delete(name);
    if (followed.kind === 'waiting') this.known.put(followed.job);
    else if (!declared) this.known.drop(name);
    if (followed.kind === 'unreadable') this.events.emit({ type: 'job.unreadable', jobName: name, problem: followed.problem });
    else if (scheduled) this.events.emit({ type: 'job.unscheduled', jobName: name });
  }

  private schedule(job: RegisteredJob, stored: StoredJob, contested: StoredJob | undefined): void {
    const last = this.timelines.get(stored.name)?.job.schedule;
    const before = last ? scheduleInWords(last) : contested && wordsOf(contested);
    const schedule = scheduleInWords(job.definition.schedule);
    const was = before === undefined || before === schedule ? null : before;
    this.known.put(job);
    this.timelines.set(new JobTimeline(job.definition, stored.decidedUntil));
    if (!this.starting || was !== null) this.events.emit({ type: 'job.scheduled', jobName: stored.name, schedule, was, updated: last !== undefined && was === null });
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
