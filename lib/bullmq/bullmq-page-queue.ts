import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Job, Queue, Worker } from 'bullmq';
import { pageTicket, type PageTicket } from '../domain/effects/page.js';
import type { PageQueue, PageQueueContext, PageWork, PageWorker } from '../domain/effects/page-queue.js';
import { postgresBackend, redisBackend, type BullMqBackend } from './bullmq-backend.js';
import { readBullMqOptions, type BullMqOptions, type ResolvedBullMqOptions } from './bullmq-options.js';

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

/** How soon an idle worker has paused, in milliseconds. */
const IDLE_WITHIN_MS = 500;

/** Carries pages by BullMQ, on its PostgreSQL backend or on Redis; each job of the scheduler has a queue of its own. */
export class BullMqPageQueue implements PageQueue {
  private readonly options: ResolvedBullMqOptions;
  private readonly queues = new Map<string, Queue>();
  private readonly workers = new Set<Worker>();
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
    const worker = this.opened.backend.worker(this.nameOf(jobName), (job: Job) => work(ticketOf(job.data as Carried)), {
      concurrency,
      lockDuration: redeliverAfterMs,
      stalledInterval: redeliverAfterMs,
    });
    worker.on('error', (error) => this.context?.failed(error));
    this.workers.add(worker);
    return {
      stop: async () => {
        // Not `close`, which could not be hurried any more.
        await worker.pause();
        await worker.close();
        this.workers.delete(worker);
      },
    };
  }

  async close(): Promise<void> {
    const [workers, queues] = [[...this.workers], [...this.queues.values()]];
    this.workers.clear();
    this.queues.clear();
    await Promise.allSettled([...workers.map(letGo), ...queues.map((queue) => queue.close())]);
  }

  private queueOf(jobName: string): Queue {
    const known = this.queues.get(jobName);
    if (known) return known;
    const queue = this.opened.backend.queue(this.nameOf(jobName));
    queue.on('error', (error) => this.context?.failed(error));
    this.queues.set(jobName, queue);
    return queue;
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

/** Paused first: closed while it waits for a job, it would leave a timer behind that keeps the process alive. One that has a job is not waited for. */
async function letGo(worker: Worker): Promise<void> {
  await Promise.race([worker.pause(), sleep(IDLE_WITHIN_MS, undefined, { ref: false })]);
  await worker.close(true);
}

function ticketOf({ jobName, fireTime, page, ticket }: Carried): PageTicket {
  return pageTicket({ jobName, fireTime: new Date(fireTime), page }, ticket);
}
