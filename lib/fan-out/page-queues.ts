import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { inCleanContext } from '../database/loop.js';
import { SchedulerDatabase } from '../database/scheduler-database.js';
import { InvalidOptionsError } from '../errors/errors.js';
import { describeError } from '../errors/stored-error.js';
import { KnownJobs } from '../jobs/known-jobs.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { runId, type RunKey } from '../options/run.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { PAGE_QUEUE, SCHEDULER_OPTIONS } from '../options/tokens.js';
import { RefusedData } from '../runs/refused-data.js';
import type { PageQueue, PageTicket, PageWorker } from './page.js';
import { PageStore } from './page.repository.js';
import { PageExecutor } from './page-executor.service.js';
import { Duty } from '../observe/duty.js';
import { within } from '../database/collections.js';

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

/** How long the queue gets to take tickets, in milliseconds: no tick is to wait for one that is gone. */
const PATIENCE_MS = 10_000;

/** Hands tickets to the queue, and notes that. A crash in between hands them over twice, which is harmless. */
@Injectable()
export class PageHandOver {
  private readonly refused: RefusedData;

  constructor(
    private readonly queues: PageQueues,
    private readonly store: PageStore,
    events: SchedulerEvents,
  ) {
    this.refused = new RefusedData(events);
  }

  /** Runs whose pages the queue has, while the database refuses to note that, and for how long they are left alone. */
  resting(): { readonly runs: readonly RunKey[]; readonly forMs: number } {
    return this.refused.resting('hand over');
  }

  /** @throws what is in the way of the queue at once */
  async hand(tickets: readonly PageTicket[]): Promise<void> {
    const byJob = new Map<string, PageTicket[]>();
    for (const ticket of tickets) {
      const own = byJob.get(ticket.jobName);
      if (own) own.push(ticket);
      else byJob.set(ticket.jobName, [ticket]);
    }
    for (const [jobName, own] of byJob) {
      const queue = await this.queues.open();
      await inTime(queue.enqueue(jobName, own));
      const runs = [...new Map(own.map((ticket) => [runId(ticket), ticket])).values()];
      await this.refused.takeApart('hand over', runs, runId, async (part) => {
        const ids = new Set(part.map(runId));
        await this.store.handedOver(own.filter((ticket) => ids.has(runId(ticket))));
        return [];
      });
    }
  }

  failed(error: unknown): void {
    this.queues.failed(error);
  }
}

async function inTime(work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new Error(`The page queue gave no answer for ${PATIENCE_MS / 1_000} s.`)),
      PATIENCE_MS,
    );
    timer.unref();
  });
  await Promise.race([work, late]).finally(() => clearTimeout(timer));
}

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
