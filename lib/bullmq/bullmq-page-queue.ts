import * as bullmq from 'bullmq';
import { type Job, type Processor, Queue, Worker } from 'bullmq';
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { GuardedClient } from '../database/clients.js';
import {
  type PageQueue,
  type PageQueueContext,
  type PageTicket,
  type PageWork,
  type PageWorker,
  readTicket,
} from '../fan-out/page.js';
import { InvalidOptionsError } from '../errors/errors.js';
import { type BullMqOptions, readBullMqOptions, type ResolvedBullMqOptions } from './bullmq-options.js';

/** What BullMQ carries of a page. */
interface Carried {
  readonly jobName: string;
  readonly fireTime: string;
  readonly page: string;
  readonly ticket: number;
}

/**
 * A delivery that could not be dealt with is made again, for as long as that takes: whether a page is tried again or
 * dead is not BullMQ's to say. Nothing is kept of those that were: `job_pages` has it.
 */
const JOB = {
  attempts: 1_000_000,
  backoff: { type: 'fixed', delay: 2_000 },
  removeOnComplete: true,
  removeOnFail: true,
} as const;

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
    const hash = createHash('sha256')
      .update(JSON.stringify([this.opened.context.schema, jobName]))
      .digest('hex')
      .slice(0, 12);
    return `${jobName.replaceAll(/[^A-Za-z0-9_-]+/g, '-').slice(0, 40)}-${hash}`;
  }
}

/** As it is, where it is no ticket: who works deliveries says so, and drops it. */
function ticketOf(data: unknown): PageTicket {
  const { fireTime, ...carried } = Object(data) as Partial<Carried>;
  return (
    readTicket({ ...carried, fireTime: typeof fireTime === 'string' ? new Date(fireTime) : null }) ??
    (data as PageTicket)
  );
}

/** What a queue and a worker are made with. */
export interface BullMqBackend {
  queue(name: string): Queue;
  /** One that runs when it is told to. */
  worker(
    name: string,
    processor: Processor,
    options: { readonly concurrency: number; readonly lockDuration: number; readonly stalledInterval: number },
  ): Worker;
}

/** How many stalls BullMQ forgives: it is not the one to decide that a page is dead. */
const maxStalledCount = 1_000_000;

/**
 * How soon a worker asks again after a failure, in milliseconds: BullMQ's own 15 s would be added to each outage, and
 * to a shutdown in it.
 */
const runRetryDelay = 1_000;

/** Connections of a worker for its bookkeeping, beside the one that listens. */
const WORKER_POOL = 2;

export function postgresBackend(
  { connection, schema, migrate }: ResolvedBullMqOptions,
  context: PageQueueContext,
): BullMqBackend {
  const settings = (max: number) => ({
    ...(connection ?? context.postgres('nestjs-distributed-cron pages')),
    schema,
    migrate: migrate ?? context.migrate,
    max,
    Client: GuardedClient,
  });
  // An older bullmq has no such export, and would take the third argument for something else.
  const backend = bullmq.createPostgresBackend;
  if (typeof backend !== 'function') {
    throw new InvalidOptionsError([
      'The installed bullmq has no PostgreSQL backend: install bullmq 6.7 or later, or give DistributedCronBullMqModule.forRoot({ redis }).',
    ]);
  }
  return {
    queue: (name) => new Queue(name, { connection: settings(1) }, backend) as unknown as Queue,
    worker: (name, processor, options) =>
      new Worker(
        name,
        processor,
        { ...options, autorun: false, maxStalledCount, runRetryDelay, connection: settings(WORKER_POOL) },
        backend,
      ) as unknown as Worker,
  };
}

export function redisBackend({ redis }: ResolvedBullMqOptions): BullMqBackend {
  // A tick that enqueues is not to wait for a Redis that is gone: the pages are written, and are handed over later.
  const impatient = { ...redis, maxRetriesPerRequest: 1 };
  return {
    queue: (name) => new Queue(name, { connection: impatient }),
    worker: (name, processor, options) =>
      new Worker(name, processor, {
        ...options,
        autorun: false,
        maxStalledCount,
        runRetryDelay,
        connection: { ...redis, maxRetriesPerRequest: null },
      }),
  };
}

/** How soon another is made, in milliseconds. */
const AGAIN_AFTER_MS = 1_000;

/** How soon an idle worker has paused, in milliseconds. */
const IDLE_WITHIN_MS = 500;

/**
 * A worker of BullMQ that begins once its queue is ready: one that does not wait for that asks a queue that has failed
 * for good again and again, without a pause in which anything else of the process could run. It is made anew until its
 * database was there and had the tables: one that was not ready at its beginning never works. One that has worked finds
 * its way back by itself.
 */
export class LastingWorker {
  private current: Worker;
  private ended = false;

  /** @param make one that does not run by itself */
  constructor(private readonly make: () => Worker) {
    this.current = this.started();
  }

  /** Takes nothing more, and waits for what is in hand. */
  async stop(): Promise<void> {
    this.ended = true;
    // Not `close`, which could not be hurried any more.
    await this.current.pause();
    await this.current.close();
  }

  /**
   * Paused first: closed while it waits for a job, it would leave a timer behind that keeps the process alive. One that
   * has a job is not waited for.
   */
  async letGo(): Promise<void> {
    this.ended = true;
    await letGo(this.current);
  }

  private started(): Worker {
    const worker = this.make();
    worker.waitUntilReady().then(
      () => this.run(worker),
      (error: Error) => this.replace(worker, error),
    );
    return worker;
  }

  private async run(worker: Worker): Promise<void> {
    if (!this.ended) await worker.run().catch((error: Error) => worker.emit('error', error));
  }

  private async replace(worker: Worker, error: Error): Promise<void> {
    if (this.ended) return;
    worker.emit('error', error);
    await letGo(worker).catch(() => {});
    await sleep(AGAIN_AFTER_MS, undefined, { ref: false });
    if (!this.ended) this.current = this.started();
  }
}

async function letGo(worker: Worker): Promise<void> {
  await Promise.race([worker.pause(), sleep(IDLE_WITHIN_MS, undefined, { ref: false })]);
  await worker.close(true);
}
