import { createPostgresBackend, Queue, Worker, type Processor } from 'bullmq';
import type { PageQueueContext } from '../domain/effects/page-queue.js';
import type { ResolvedBullMqOptions } from './bullmq-options.js';
import { GuardedClient } from '../store/connection/guarded-client.js';

/** What a queue and a worker are made with. */
export interface BullMqBackend {
  queue(name: string): Queue;
  /** One that runs when it is told to. */
  worker(name: string, processor: Processor, options: { readonly concurrency: number; readonly lockDuration: number; readonly stalledInterval: number }): Worker;
}

/** How many stalls BullMQ forgives: it is not the one to decide that a page is dead. */
const maxStalledCount = 1_000_000;

/** How soon a worker asks again after a failure, in milliseconds: BullMQ's own 15 s would be added to each outage, and to a shutdown in it. */
const runRetryDelay = 1_000;

/** Connections of a worker for its bookkeeping, beside the one that listens. */
const WORKER_POOL = 2;

export function postgresBackend({ connection, schema, migrate }: ResolvedBullMqOptions, context: PageQueueContext): BullMqBackend {
  const settings = (max: number) => ({
    ...(connection ?? context.postgres('nestjs-distributed-cron pages')),
    schema,
    migrate: migrate ?? context.migrate,
    max,
    Client: GuardedClient,
  });
  return {
    queue: (name) => new Queue(name, { connection: settings(1) }, createPostgresBackend) as unknown as Queue,
    worker: (name, processor, options) =>
      new Worker(name, processor, { ...options, autorun: false, maxStalledCount, runRetryDelay, connection: settings(WORKER_POOL) }, createPostgresBackend) as unknown as Worker,
  };
}

export function redisBackend({ redis }: ResolvedBullMqOptions): BullMqBackend {
  // A tick that enqueues is not to wait for a Redis that is gone: the pages are written, and are handed over later.
  const impatient = { ...redis, maxRetriesPerRequest: 1 };
  return {
    queue: (name) => new Queue(name, { connection: impatient }),
    worker: (name, processor, options) => new Worker(name, processor, { ...options, autorun: false, maxStalledCount, runRetryDelay, connection: { ...redis, maxRetriesPerRequest: null } }),
  };
}
