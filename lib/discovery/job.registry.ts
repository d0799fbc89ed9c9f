import { Injectable } from '@nestjs/common';
import type { JobDefinition } from '../domain/job-definition.js';
import type { Handler } from './handler.factory.js';

/** A job this instance can run. */
export interface RegisteredJob {
  readonly definition: JobDefinition;
  readonly handler: Handler;
}

/** The jobs this instance knows, by name. */
@Injectable()
export class JobRegistry {
  private readonly jobs = new Map<string, RegisteredJob>();

  /** The job of that name, or undefined when this instance doesn't know it. */
  get(name: string): RegisteredJob | undefined {
    return this.jobs.get(name);
  }

  /** All jobs, by name. */
  list(): RegisteredJob[] {
    return [...this.jobs.values()].sort((a, b) => (a.definition.name < b.definition.name ? -1 : 1));
  }

  names(): string[] {
    return [...this.jobs.keys()];
  }

  get size(): number {
    return this.jobs.size;
  }

  /** Takes the jobs that the code declares; called once, at module init. */
  register(jobs: readonly RegisteredJob[]): void {
    for (const job of jobs) this.jobs.set(job.definition.name, job);
  }
}
