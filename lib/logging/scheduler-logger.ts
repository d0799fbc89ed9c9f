import { Inject, Injectable, Logger } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../distributed-scheduler.tokens.js';
import type { JobDefinition } from '../domain/job-definition.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { jobLine, wordingOf, type LogLine } from './wording.js';

/** Writes what happens to Nest's Logger. */
@Injectable()
export class SchedulerLogger {
  private readonly logger = new Logger('DistributedScheduler');

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    private readonly events: SchedulerEvents,
  ) {}

  /** Listens until the stream ends. */
  listen(): void {
    if (!this.options.logging) return;
    this.events.subscribe((event) => {
      const line = wordingOf(event);
      if (line) this.write(line);
    });
  }

  /** One line a job, and what is doubtful about its expression or zone. */
  listJobs(jobs: readonly JobDefinition[], now: Date): void {
    for (const job of jobs) {
      this.say(jobLine(job, now));
      for (const warning of job.schedule.warnings) if (this.options.logging) this.logger.warn(`${job.name}: ${warning}`);
    }
  }

  say(text: string): void {
    if (this.options.logging) this.logger.log(text);
  }

  private write({ level, text, stack }: LogLine): void {
    if (level === 'error') this.logger.error(text, stack);
    else this.logger[level](stack ? `${text}\n${stack}` : text);
  }
}
