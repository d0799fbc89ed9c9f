import { Injectable } from '@nestjs/common';
import type { Backoff, JobDefinition } from '../options/job-definition.js';
import type { Handler } from './handler.factory.js';

/** A job this instance can run. */
export interface RegisteredJob {
  readonly definition: JobDefinition;
  readonly handler: Handler;
}

/** What the code of this instance declares. */
export interface Declarations {
  readonly jobs: readonly RegisteredJob[];
  /** For jobs made at run time, by the name that `@DistributedCronHandler` gives. */
  readonly handlers: ReadonlyMap<string, RunTimeHandler>;
  /** For the pages of jobs, by the job's name, former ones included. */
  readonly pages?: ReadonlyMap<string, PageHandler>;
}

/** A method that runs jobs made at run time. */
export interface RunTimeHandler {
  readonly handler: Handler;
  /** Where it stands, for people: `Reports.send`. */
  readonly declaredBy: string;
}

/** The last that were removed; older ones have no run under way any more, most likely. */
const MOST_DROPPED = 100;

/**
 * The jobs this instance can run, by name: those its code declares, with the schedule that the database has for them,
 * and those made at run time whose handler it has.
 */
@Injectable()
export class KnownJobs {
  private readonly jobs = new Map<string, RegisteredJob>();
  private readonly formerNames = new Map<string, RegisteredJob>();
  private readonly dropped = new Map<string, RegisteredJob>();
  private readonly byName = new Map<string, RegisteredJob>();
  private declarations: Declarations = { jobs: [], handlers: new Map() };
  /** Names that the database has and no live instance declares, as far as this one has found. */
  unregistered: readonly string[] = [];

  /** As they are declared, whatever the database has. */
  get declared(): Declarations {
    return this.declarations;
  }

  /** Takes what the code declares; called once, at module init. */
  declare(declarations: Declarations): void {
    this.declarations = declarations;
    for (const job of declarations.jobs) {
      this.byName.set(job.definition.name, job);
      this.put(job);
      // What still waits under a former name is finished under it: its receipts and idempotency keys hold.
      for (const name of job.definition.previously)
        this.formerNames.set(name, { ...job, definition: { ...job.definition, name } });
    }
  }

  /** The job of that name as the code of this instance declares it. */
  declaredJob(name: string): RegisteredJob | undefined {
    return this.byName.get(name);
  }

  /** The job of that name, also a former one, or undefined when this instance can't run it. */
  get(name: string): RegisteredJob | undefined {
    return this.jobs.get(name) ?? this.formerNames.get(name) ?? this.dropped.get(name);
  }

  /** The handler of a job's pages; undefined when this instance has none. */
  pageHandler(jobName: string): PageHandler | undefined {
    return this.declarations.pages?.get(jobName);
  }

  /** The jobs whose pages this instance can work, former names included. */
  pageJobs(): string[] {
    return [...(this.declarations.pages?.keys() ?? [])];
  }

  /** Without former names, by name. */
  list(): RegisteredJob[] {
    return [...this.jobs.values()].sort((a, b) => (a.definition.name < b.definition.name ? -1 : 1));
  }

  /** Without former names, in alphabetical order. */
  names(): string[] {
    return this.list().map(({ definition }) => definition.name);
  }

  /** Every job whose runs may be started here, under former names, too; each name once, as `get` has it. */
  runnable(): RegisteredJob[] {
    return [...new Map([...this.dropped, ...this.formerNames, ...this.jobs]).values()];
  }

  put(job: RegisteredJob): void {
    this.dropped.delete(job.definition.name);
    this.jobs.set(job.definition.name, job);
  }

  /** It is scheduled no more; a run that is under way goes on to its end. */
  drop(name: string): void {
    const job = this.jobs.get(name);
    if (!job) return;
    this.jobs.delete(name);
    this.dropped.set(name, job);
    if (this.dropped.size > MOST_DROPPED) this.dropped.delete(this.dropped.keys().next().value!);
  }
}

/** How a job's pages are worked, every default filled in. */
export interface PagePolicies {
  readonly concurrency: number;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  readonly timeoutMs: number | null;
}

/** The handler of a job's pages, on this instance. */
export interface PageHandler {
  readonly handler: Handler;
  readonly policies: PagePolicies;
  /** Where it is declared, for people. */
  readonly declaredBy: string;
}
