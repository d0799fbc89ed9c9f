import { Injectable } from '@nestjs/common';
import { KnownJobs } from '../discovery/known-jobs.js';
import { isExternalCalendar } from '../domain/schedule/calendar.js';
import type { JobTrigger } from '../domain/job-definition.js';
import { compileSchedule } from '../domain/schedule/schedule.js';
import { FlagAnswers, type FlagAnswer } from '../execution/flag-answers.js';
import { readOperationOptions } from '../options/operation-options.js';
import { knownAs } from '../options/operation-rules.js';
import { integer } from '../options/option-rules.js';
import type { OptionTable } from '../options/read-options.js';
import { AfterRegistration } from '../runtime/registration.js';
import { InventoryStore, type InventoryRow, type KeptAction, type LastRun } from '../store/operations/inventory.store.js';

/**
 * `active`: a live instance can run it. `unregistered`: none declares it, and it does not run. `removed`: it was made at
 * run time, and taken out. `renamed`: its occurrences are decided under another name.
 */
export type JobState = 'active' | 'unregistered' | 'removed' | 'renamed';

/** One job, with its answers to the three questions: who owns it, what happens when runs overlap, what to those missed. */
export interface InventoryEntry {
  readonly name: string;
  readonly state: JobState;
  /** The name to look at instead, of one that is renamed. */
  readonly renamedTo: string | null;
  readonly owner: string | null;
  readonly overlap: string | null;
  readonly missed: string | null;
  /** Which of the three are only a default. */
  readonly implicit: readonly string[];
  /** Where it is declared: `InvoiceService.export`; for a job made at run time, its handler. */
  readonly declaredBy: string | null;
  /** What holds, on every replica. */
  readonly cron: string;
  readonly timeZone: string;
  /** Who fires it. */
  readonly trigger: JobTrigger;
  /** What `startAt`, `endAt` and `exclude` leave out; an external trigger is noted here, too. */
  readonly calendar: string | null;
  readonly enabled: boolean;
  readonly paused: { readonly since: Date; readonly until: Date | null; readonly by: string | null; readonly reason: string | null } | null;
  /** An operator's schedule is in place of the declared one; `declared` is what this instance's code says, if it knows the job. */
  readonly overridden: {
    readonly at: Date;
    readonly by: string | null;
    readonly reason: string | null;
    readonly declared: { readonly cron: string; readonly timeZone: string } | null;
  } | null;
  /** `on`: as it holds on this instance; by the table, and by the application's provider, null where there is none. */
  readonly flag: { readonly name: string; readonly on: boolean; readonly onInTable: boolean; readonly provider: FlagAnswer | null } | null;
  /** When the schedule fires next; null when never, or when the job does not run: held back, or not active. */
  readonly nextFireTime: Date | null;
  /** The newest occurrence that was started. */
  readonly lastRun: LastRun | null;
  readonly running: number;
  readonly waiting: number;
  readonly dead: number;
}

export interface ActionsOptions {
  /** @default those of all jobs, and those of none */
  readonly jobName?: string;
  /** 1 to 10000. @default 100 */
  readonly limit?: number;
}

const ACTIONS_OPTIONS = {
  jobName: { rule: knownAs },
  limit: { rule: integer({ atLeast: 1, atMost: 10_000 }) },
} as const satisfies Record<keyof ActionsOptions, OptionTable[string]>;

/** What there is, and what operators did to it. */
@Injectable()
@AfterRegistration()
export class Inventory {
  constructor(
    private readonly store: InventoryStore,
    private readonly known: KnownJobs,
    private readonly answers: FlagAnswers,
  ) {}

  /** Every job that the database knows, by name: also those of other versions, and those that are gone. */
  async inventory(): Promise<InventoryEntry[]> {
    const { now, jobs } = await this.store.jobs();
    const answers = await this.answers.shown([...new Set(jobs.flatMap((job) => flagOf(job) ?? []))]);
    return jobs.map((job) => this.entry(job, now, answers.get(flagOf(job) ?? '') ?? null));
  }

  /** What operators did, the newest first. @throws InvalidOptionsError */
  async actions(options?: ActionsOptions): Promise<KeptAction[]> {
    const { jobName = null, limit = 100 } = readOperationOptions(options, ACTIONS_OPTIONS, 'SchedulerService.actions');
    return this.store.actions(jobName, limit);
  }

  private entry(job: InventoryRow, now: Date, provider: FlagAnswer | null): InventoryEntry {
    const { policies } = job;
    const state = stateOf(job);
    const text = (name: string) => (typeof policies[name] === 'string' ? policies[name] : null);
    const flag = flagOf(job);
    const on = !job.flagIsOff && provider?.on !== false;
    const runs = state === 'active' && job.enabled && !job.paused && on;
    return {
      name: job.name,
      state,
      renamedTo: job.yieldsTo,
      owner: job.owner,
      overlap: text('overlap'),
      missed: text('missed'),
      implicit: Array.isArray(policies['implicit']) ? policies['implicit'] : [],
      declaredBy: job.handler === null ? text('declaredBy') : `@DistributedCronHandler(${JSON.stringify(job.handler)})`,
      cron: job.cron,
      timeZone: job.timeZone,
      trigger: isExternalCalendar(job.calendar) ? 'external' : 'schedule',
      calendar: job.calendar,
      enabled: job.enabled,
      paused: job.paused ? { since: job.pausedAt!, until: job.pausedUntil, by: job.pausedBy, reason: job.pausedReason } : null,
      overridden: job.overriddenAt && { at: job.overriddenAt, by: job.overriddenBy, reason: job.overriddenReason, declared: this.declared(job.name) },
      flag: flag === null ? null : { name: flag, on, onInTable: !job.flagIsOff, provider },
      nextFireTime: runs ? nextFireTime(job, now) : null,
      lastRun: job.last,
      running: job.running,
      waiting: job.waiting,
      dead: job.dead,
    };
  }

  private declared(name: string): { cron: string; timeZone: string } | null {
    const schedule = this.known.declaredJob(name)?.definition.schedule;
    return schedule ? { cron: schedule.expression, timeZone: schedule.timeZone } : null;
  }
}

function flagOf({ policies }: InventoryRow): string | null {
  return typeof policies['flag'] === 'string' ? policies['flag'] : null;
}

function stateOf({ removedAt, yieldsTo, instances }: InventoryRow): JobState {
  if (removedAt) return 'removed';
  if (yieldsTo !== null) return 'renamed';
  return instances > 0 ? 'active' : 'unregistered';
}

/** Null also for a schedule that cannot be read here: a newer version of this library, or a person, may have stored it. */
function nextFireTime({ name, cron, timeZone, calendar }: InventoryRow, now: Date): Date | null {
  try {
    const next = compileSchedule(cron, timeZone, name, calendar).nextAfter(now.getTime());
    return next === null ? null : new Date(next);
  } catch {
    return null;
  }
}
