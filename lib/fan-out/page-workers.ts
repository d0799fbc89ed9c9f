import { Inject, Injectable } from '@nestjs/common';
import { KnownJobs } from '../jobs/known-jobs.js';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import type { PageWorker } from './page.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { PageExecutor } from './page-executor.service.js';
import { PageQueues } from './page-queues.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { Duty } from '../observe/duty.js';
import { within } from '../database/collections.js';

/** How long the queue gets to let go of its connections, in milliseconds. */
const CLOSE_WITHIN_MS = 2_000;

/** Takes deliveries of pages on this instance, from its start to its end. */
@Injectable()
export class PageWorkers extends Duty {
  private workers: PageWorker[] = [];
  private ending: Promise<unknown> | null = null;

  constructor(
    private readonly known: KnownJobs,
    private readonly queues: PageQueues,
    private readonly executor: PageExecutor,
    @Inject(SCHEDULER_OPTIONS) options: ResolvedSchedulerOptions,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'page workers', maxSleepMs: options.pollIntervalMs });
  }

  protected pass(): Promise<number> {
    return this.take();
  }

  /** A queue that is out of reach fails no start: it is tried again. */
  override start(): void {
    if (this.known.pageJobs().length > 0) super.start();
  }

  /** One pass. @returns milliseconds to the next: there is none once the workers are there */
  async take(): Promise<number> {
    if (this.workers.length > 0 || this.ending) return Infinity;
    const queue = await this.queues.open();
    if (this.ending) return Infinity;
    this.workers = this.known.pageJobs().map((jobName) =>
      queue.work(jobName, (ticket) => this.executor.deliver(jobName, ticket), {
        concurrency: this.known.pageHandler(jobName)!.policies.concurrency,
      }),
    );
    return Infinity;
  }

  /** Takes nothing more; what is in hand goes on. */
  override async stop(): Promise<void> {
    this.ending ??= Promise.allSettled(this.workers.splice(0).map((worker) => worker.stop()));
    await super.stop();
  }

  /** Lets go of the queue. What has not ended is delivered again, to whoever is left. */
  override async end(): Promise<void> {
    await this.stop();
    await within(CLOSE_WITHIN_MS, this.ending!);
    await within(CLOSE_WITHIN_MS, this.queues.close()).catch(() => {});
  }
}
