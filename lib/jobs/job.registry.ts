import { Inject, Injectable } from '@nestjs/common';
import { filter, firstValueFrom, race, ReplaySubject, timer } from 'rxjs';
import { AfterRegistration } from '../database/registration.js';
import { OperationRefusedError, unknownJob } from '../errors/errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { readChanges, resolveRunTimeJob, type RunTimeJob } from '../options/run-time-job.js';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { JobInstanceStore } from './job-instance.store.js';
import { KnownJobs, type RegisteredJob } from './known-jobs.js';
import { type Found, RunTimeJobStore } from './schedule-changes.store.js';

/** How long a change is waited for here, in milliseconds; when the database is slow, it is followed later. */
const FOLLOW_WITHIN_MS = 2_000;

/**
 * The jobs of this instance, and jobs made at run time: added, changed or removed on any replica, followed by all
 * within one `pollInterval`, and by the one where that is asked for before the call resolves. A replica without the
 * handler leaves such a job alone.
 */
@Injectable()
@AfterRegistration()
export class JobRegistry {
  /** Between the start of the scheduler here and its end; never with `enabled: false`. */
  private takesPart = false;

  constructor(
    private readonly known: KnownJobs,
    private readonly store: RunTimeJobStore,
    private readonly instances: JobInstanceStore,
    private readonly events: SchedulerEvents,
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
  ) {
    events
      .of('scheduler.started', 'scheduler.stopping')
      .subscribe(({ type }) => (this.takesPart = type === 'scheduler.started'));
  }

  /** The job of that name, or undefined when this instance can't run it. */
  get(name: string): RegisteredJob | undefined {
    return this.known.get(name);
  }

  /** The jobs this instance can run, by name. */
  list(): RegisteredJob[] {
    return this.known.list();
  }

  names(): string[] {
    return this.known.names();
  }

  get size(): number {
    return this.list().length;
  }

  /**
   * Makes a job. It has no past: its first occurrence is the next one.
   * @throws InvalidOptionsError with all that is wrong with it, also when no live instance has its handler;
   * OperationRefusedError when the name is taken
   */
  async add(job: RunTimeJob): Promise<void> {
    const toStore = resolveRunTimeJob(job, await this.context('add'));
    await this.following(job.name, async () => {
      const taken = await this.store.add(toStore);
      if (taken)
        throw new OperationRefusedError(
          'job-exists',
          taken.runTime
            ? `There is a job "${job.name}" already: change it with JobRegistry.update, or remove it first.`
            : `There is a job "${job.name}" already, declared by code: give the new one another name.`,
        );
      return this.hasHandler(toStore.parts.handler);
    });
  }

  /**
   * Changes a job that was made at run time; what is not given stays. What is decided stays decided: another expression
   * or zone holds from now on.
   * @throws InvalidOptionsError as `add`, NotFoundError when there is none of that name,
   * OperationRefusedError when code declares it
   */
  async update(name: string, changes: Partial<Omit<RunTimeJob, 'name'>>): Promise<void> {
    const context = await this.context('update');
    const given = readChanges(name, changes, context.calledAs);
    await this.following(name, async () => {
      let handler = '';
      const found = await this.store.update(name, ({ cron, timeZone, runTime }) => {
        const toStore = resolveRunTimeJob(
          { ...runTime!.options, handler: runTime!.handler, data: runTime!.data, cron, timeZone, ...given, name },
          context,
        );
        handler = toStore.parts.handler;
        return toStore;
      });
      this.requireRunTimeJob(name, found);
      return this.hasHandler(handler) || this.isKnown(name);
    });
  }

  /**
   * Removes a job that was made at run time. Its history stays; its waiting runs are cancelled, one that runs goes on.
   * @throws NotFoundError when there is none of that name,
   * OperationRefusedError when code declares it
   */
  async remove(name: string): Promise<void> {
    await this.following(name, async () => {
      this.requireRunTimeJob(name, await this.store.remove(name));
      return this.isKnown(name);
    });
  }

  private async context(method: string) {
    const handlers = new Set([...this.known.declared.handlers.keys(), ...(await this.instances.handlers())]);
    return {
      calledAs: `JobRegistry.${method}`,
      handlers: [...handlers],
      defaults: this.options.jobDefaults,
      retentionMs: this.options.retentionMs,
    };
  }

  private requireRunTimeJob(name: string, found: Found): void {
    if (found === 'missing') throw unknownJob(name, null);
    if (found === 'declared by code')
      throw new OperationRefusedError(
        'job-kind',
        `Job "${name}" is declared by code: change its decorator, or pause it; only jobs made with JobRegistry.add can be changed here.`,
      );
  }

  /** @param change tells whether this instance will have something to follow */
  private async following(jobName: string, change: () => Promise<boolean>): Promise<void> {
    // Heard from before the change on: a pass of the follower may see it before anybody tells it to look.
    const followed = followedHere(this.events, jobName);
    try {
      const here = await change();
      this.events.emit({ type: 'job.outdated', jobName });
      if (here && this.takesPart) await followed.within(FOLLOW_WITHIN_MS);
    } finally {
      followed.forget();
    }
  }

  private hasHandler(name: string): boolean {
    return this.known.declared.handlers.has(name);
  }

  private isKnown(name: string): boolean {
    return this.known.names().includes(name);
  }
}

/** A change of a job that this instance is expected to follow. */
interface FollowedHere {
  /** Resolves when it has, and at the latest after so many milliseconds. */
  within(millis: number): Promise<void>;
  /** Listens no more. */
  forget(): void;
}

/** Listens from now on. */
function followedHere(events: SchedulerEvents, jobName: string): FollowedHere {
  const seen = new ReplaySubject<unknown>(1);
  const listening = events
    .of('job.scheduled', 'job.unscheduled', 'job.unreadable')
    .pipe(filter((event) => event.jobName === jobName))
    .subscribe(seen);
  return {
    within: async (millis) => {
      await firstValueFrom(race(seen, timer(millis)), { defaultValue: null });
    },
    forget: () => listening.unsubscribe(),
  };
}
