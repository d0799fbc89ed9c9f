import { describe, expect, it } from '@jest/globals';
import type { PageQueue, PageTicket, PageWork } from '../../lib/index.js';
import { InMemoryPageQueue, pageQueueConformance } from '../../lib/testing/index.js';

const checksOf = (create: () => PageQueue, withinMs?: number) => pageQueueConformance({ create, withinMs });

describe('the conformance of a page queue', () => {
  const queue = new InMemoryPageQueue();
  it.each(checksOf(() => new InMemoryPageQueue(queue), 10_000))('$name', ({ check }) => check());
});

/** Each breaks one promise, and nothing else. */
const BROKEN: Readonly<Record<string, { broken: (queue: InMemoryPageQueue) => PageQueue; fails: string }>> = {
  'forgets every tenth ticket': {
    broken: (queue) =>
      new Broken(queue, {
        enqueue: (job, tickets) =>
          queue.enqueue(
            job,
            tickets.filter((_ticket, index) => index % 10 !== 9),
          ),
      }),
    fails: 'delivers every ticket, as it was enqueued, also what came before the worker',
  },
  'delivers for ever what it was given': {
    broken: (queue) =>
      new Broken(queue, {
        work: (job, work, options) =>
          queue.work(
            job,
            async (ticket) => {
              await work(ticket);
              setTimeout(() => void queue.enqueue(job, [ticket]), 10).unref();
            },
            options,
          ),
      }),
    fails: 'takes one id several times, and delivers it at least once and not more often than it was given',
  },
  'knows no bound': {
    broken: (queue) => new Broken(queue, { work: (job, work) => queue.work(job, work, { concurrency: 100 }) }),
    fails:
      'has at most as many deliveries in hand in one worker as its concurrency says, and as many where there is work',
  },
  'takes a failure for an end': {
    broken: (queue) =>
      new Broken(queue, {
        work: (job, work, options) => queue.work(job, (ticket) => work(ticket).catch(() => undefined), options),
      }),
    fails: 'delivers again what could not be dealt with',
  },
  'loses what a dead worker had': {
    broken: (queue) => new Broken(queue, { close: async () => undefined }),
    fails: 'delivers to others what a worker had that is gone',
  },
  'does not wait when it stops': {
    broken: (queue) =>
      new Broken(queue, {
        work: (job, work, options) => {
          const worker = queue.work(job, work, options);
          return { stop: async () => void worker.stop() };
        },
      }),
    fails: 'stops a worker only when it has dealt with what it has in hand, and gives it nothing more',
  },
  'mixes jobs up': {
    broken: (queue) =>
      new Broken(queue, {
        enqueue: (job, tickets) => queue.enqueue(job.toLowerCase(), tickets),
        work: (job, work, options) => queue.work(job.toLowerCase(), work, options),
      }),
    fails: 'keeps jobs apart, whatever their names',
  },
};

class Broken implements PageQueue {
  constructor(
    private readonly queue: InMemoryPageQueue,
    private readonly broken: Partial<PageQueue>,
  ) {}

  enqueue(job: string, tickets: readonly PageTicket[]) {
    return (this.broken.enqueue ?? this.queue.enqueue.bind(this.queue))(job, tickets);
  }

  work(job: string, work: PageWork, options: { readonly concurrency: number }) {
    return (this.broken.work ?? this.queue.work.bind(this.queue))(job, work, options);
  }

  close() {
    return (this.broken.close ?? this.queue.close.bind(this.queue))();
  }
}

describe('a page queue that', () => {
  it.each(Object.entries(BROKEN))('%s does not pass', async (_what, { broken, fails }) => {
    const queue = new InMemoryPageQueue();
    const { check } = checksOf(() => broken(new InMemoryPageQueue(queue)), 1_500).find(({ name }) => name === fails)!;
    await expect(check()).rejects.toThrow(Error);
  });
});
