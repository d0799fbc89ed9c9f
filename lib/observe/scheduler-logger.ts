import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import type { JobDefinition } from '../options/job-definition.js';
import { SchedulerEvents } from './scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { clockChangeLine, clockChangesSummary, implicitLine, jobLine, overLine } from './job-wording.js';
import type { LogLine } from './log-line.js';
import { OwnLogger } from './own-logger.js';
import { wordingOf } from './wording.js';

const A_YEAR_MS = 365 * 86_400_000;

/** More jobs than these would hide the rest of what is said at start-up. */
const MOST_JOBS_TOLD = 20;

/** Writes what happens to Nest's Logger. */
@Injectable()
export class SchedulerLogger {
  private readonly logger = new OwnLogger();

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

  /** One line a job, and what is doubtful about its expression, its zone or the days on which clocks change. */
  listJobs(jobs: readonly JobDefinition[], now: Date): void {
    for (const job of jobs) {
      this.say(jobLine(job, now));
      this.doubt(job, now);
    }
    const implicit = jobs.filter((job) => job.implicit.length > 0);
    if (implicit.length > 0) this.say(implicitLine(implicit));
    if (this.options.logging) this.foretell(jobs, now.getTime());
  }

  /** What is doubtful about the schedule of a job that was made, or has another, while the application runs. */
  warnOf(job: JobDefinition, now: Date): void {
    this.doubt(job, now);
    if (this.options.logging) this.foretell([job], now.getTime());
  }

  private doubt(job: JobDefinition, now: Date): void {
    for (const warning of job.schedule.warnings) this.warn(`${job.name}: ${warning}`);
    const over = overLine(job, now);
    if (over !== null) this.warn(over);
  }

  /** Which jobs the next year's clock changes will surprise. */
  private foretell(jobs: readonly JobDefinition[], now: number): void {
    const told = jobs
      .map((job) => ({
        job,
        changes: job.schedule.clockChanges(now, now + A_YEAR_MS).filter(({ surprising }) => surprising),
      }))
      .filter(({ changes }) => changes.length > 0);
    if (told.length > MOST_JOBS_TOLD) this.warn(clockChangesSummary(told.map(({ job }) => job)));
    else for (const { job, changes } of told) for (const change of changes) this.warn(clockChangeLine(job, change));
  }

  say(text: string): void {
    if (this.options.logging) this.logger.log(text);
  }

  warn(text: string): void {
    if (this.options.logging) this.logger.warn(text);
  }

  private write({ level, text, stack }: LogLine): void {
    if (level === 'error') this.logger.error(text, stack);
    else this.logger.write(level, stack ? `${text}\n${stack}` : text);
  }
}
