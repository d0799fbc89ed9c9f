import { createHash } from 'node:crypto';
import type { Job, Queue } from 'bullmq';
import { readTicket, type PageTicket } from '../domain/effects/page.js';
import type { PageQueue, PageQueueContext, PageWork, PageWorker } from '../domain/effects/page-queue.js';
import { postgresBackend, redisBackend, type BullMqBackend } from './bullmq-backend.js';
import { readBullMqOptions, type BullMqOptions, type ResolvedBullMqOptions } from './bullmq-options.js';
import { LastingWorker } from './lasting-worker.js';

/** What BullMQ carries of a page. */
interface Carried {
  readonly jobName: string;
  readonly fireTime: string;
  readonly page: string;
  readonly ticket: number;
}

/**
 * A delivery that could not be dealt with is made again, for as long as that takes: whether a page is tried again or dead is not BullMQ's
 * to say. Nothing is kept of those that were: `job_pages` has it.
 */
const JOB = { attempts: 1_000_000, backoff: { type: 'fixed', delay: 2_000 }, removeOnComplete: true, removeOnFail: true } as const;

/** Carries pages by BullMQ, on its PostgreSQL backend or on Redis; each job of the scheduler has a queue of its own. */
export class BullMqPageQueue implements PageQueue {
  private readonly options: ResolvedBullMqOptions;
  private readonly queues = new Map<string, Queue>();
  private readonly workers = new Set<LastingWorker>();
  private context: PageQueueContext | null = null;
  private backend: BullMqBackend | null = null;

  /** @throws InvalidOptionsError with every problem */
  constructor(options?: BullMqOptions) {
    this.options = readBullMqOptions(options);
  }

  async open(context: PageQueueContext): Promise<void> {
    this.context = context;
    this.backend = this.options.redis ? redisBackend(this.options) : postgresBackend(this.options, context);
  }

  async enqueue(jobName: string, tickets: readonly PageTicket[]): Promise<void> {
    await this.queueOf(jobName).addBulk(
      tickets.map(({ id, fireTime, page, ticket }) => ({
        name: page,
        data: { jobName, fireTime: fireTime.toISOString(), page, ticket } satisfies Carried,
        opts: { ...JOB, jobId: id },
      })),
    );
  }

  work(jobName: string, work: PageWork, { concurrency }: { readonly concurrency: number }): PageWorker {
    const { redeliverAfterMs } = this.options;
    const worker = new LastingWorker(() => {
      const made = this.opened.backend.worker(this.nameOf(jobName), (job: Job) => work(ticketOf(job.data)), {
        concurrency,
        lockDuration: redeliverAfterMs,
        stalledInterval: redeliverAfterMs,
      });
      made.on('error', (error) => this.context?.failed(error));
      return made;
    });
    this.workers.add(worker);
    return {
      stop: async () => {
        await worker.stop();
        this.workers.delete(worker);
      },
    };
  }

  async close(): Promise<void> {
    const [workers, queues] = [[...this.workers], [...this.queues.values()]];
    this.workers.clear();
    this.queues.clear();
    await Promise.allSettled([...workers.map((worker) => worker.letGo()), ...queues.map((queue) => queue.close())]);
  }

  private queueOf(jobName: string): Queue {
    const known = this.queues.get(jobName);
    if (known) return known;
    const queue = this.opened.backend.queue(this.nameOf(jobName));
    queue.on('error', (error) => this.context?.failed(error));
    this.queues.set(jobName, queue);
    queue.waitUntilReady().catch(() => this.forget(jobName, queue));
    return queue;
  }

  /** A queue whose database was not there at its beginning never works: the next tickets are given to another. */
  private async forget(jobName: string, queue: Queue): Promise<void> {
    if (this.queues.get(jobName) === queue) this.queues.delete(jobName);
    await queue.close().catch(() => {});
  }

  private get opened(): { backend: BullMqBackend; context: PageQueueContext } {
    const { backend, context } = this;
    if (!backend || !context) throw new Error('BullMqPageQueue: open() comes first.');
    return { backend, context };
  }

  /** Readable in BullMQ's tools, without the characters that it refuses, and another one for each job and schema. */
  private nameOf(jobName: string): string {
    const hash = createHash('sha256').update(JSON.stringify([this.opened.context.schema, jobName])).digest('hex').slice(0, 12);
    return `${jobName.replaceAll(/[^A-Za-z0-9_-]+/g, '-').slice(0, 40)}-${hash}`;
  }
}

/** As it is, where it is no ticket: who works deliveries says so, and drops it. */
function ticketOf(data: unknown): PageTicket {
  const { fireTime, ...carried } = Object(data) as Partial<Carried>;
  return readTicket({ ...carried, fireTime: typeof fireTime === 'string' ? new Date(fireTime) : null }) ?? (data as PageTicket);
}
