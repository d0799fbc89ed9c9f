import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { KnownJobs } from '../../discovery/known-jobs.js';
import { PAGE_QUEUE, SCHEDULER_OPTIONS } from '../../distributed-scheduler.tokens.js';
import type { PageQueue } from '../../domain/effects/page-queue.js';
import { describeError } from '../../domain/runs/stored-error.js';
import { InvalidOptionsError } from '../../errors/invalid-options.error.js';
import { SchedulerEvents } from '../../events/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../../options/resolve-options.js';
import { inCleanContext } from '../../runtime/clean-context.js';
import { SchedulerDatabase } from '../../store/scheduler-database.js';

/** The application's queue for pages, opened when it is needed first. */
@Injectable()
export class PageQueues implements OnApplicationShutdown {
  private queue: PageQueue | null = null;
  private opening: Promise<PageQueue> | null = null;

  constructor(
    private readonly known: KnownJobs,
    private readonly database: SchedulerDatabase,
    private readonly events: SchedulerEvents,
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    @Inject(ModuleRef) private readonly modules: ModuleRef,
  ) {}

  /** @throws InvalidOptionsError when jobs have pages, and there is no queue for them */
  require(): void {
    const [jobName] = this.known.pageJobs();
    if (jobName === undefined) return;
    this.queue = provided(this.modules);
    const { declaredBy } = this.known.pageHandler(jobName)!;
    if (!this.queue) {
      throw new InvalidOptionsError([
        `${declaredBy}: the pages of job "${jobName}" need a queue: import DistributedCronBullMqModule.forRoot() from nestjs-distributed-cron/bullmq, or provide a PageQueue under PAGE_QUEUE.`,
      ]);
    }
  }

  /** The queue, open. What fails is tried again at the next call. */
  async open(): Promise<PageQueue> {
    const queue = this.queue ?? provided(this.modules);
    if (!queue) throw new InvalidOptionsError(['Pages need a queue: provide a PageQueue under PAGE_QUEUE.']);
    this.opening ??= inCleanContext(() => this.opened(queue)).catch((error: unknown) => {
      this.opening = null;
      throw error;
    });
    return this.opening;
  }

  async close(): Promise<void> {
    const queue = await this.opening?.catch(() => null);
    this.opening = null;
    await queue?.close();
  }

  /** Of an instance that is not enabled nobody else closes it. */
  async onApplicationShutdown(): Promise<void> {
    await this.close().catch(() => {});
  }

  failed(error: unknown): void {
    this.events.emit({ type: 'loop.failed', loop: 'page queue', error: describeError(error), failures: 1 });
  }

  private async opened(queue: PageQueue): Promise<PageQueue> {
    await queue.open?.({
      schema: this.database.tables.schema,
      migrate: this.options.migrate,
      postgres: (applicationName) => {
        const { config, password } = this.database.settings(applicationName);
        return password ? { ...config, password } : config;
      },
      failed: (error) => this.failed(error),
    });
    return queue;
  }
}

function provided(modules: ModuleRef): PageQueue | null {
  try {
    return modules.get<PageQueue>(PAGE_QUEUE, { strict: false });
  } catch (error) {
    if ((error as Error).constructor.name === 'UnknownElementException') return null;
    throw error;
  }
}
