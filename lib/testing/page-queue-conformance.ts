import { setTimeout as pause } from 'node:timers/promises';
import { pageTicket, type PageTicket } from '../fan-out/page.js';
import type { PageQueue } from '../fan-out/page.js';

/** How a page queue is made for the checks. */
export interface ConformanceOptions {
  /** A new client of one and the same queue, ready for use, as each process has one. The checks close it. */
  create(): PageQueue | Promise<PageQueue>;
  /**
   * How long what has to happen is waited for, in milliseconds; longer than your queue takes to deliver again what a
   * dead worker had. @default 60000
   */
  readonly withinMs?: number;
}

/** One thing that the scheduler relies on. */
export interface PageQueueCheck {
  readonly name: string;
  /** Rejects with what is wrong. */
  check(): Promise<void>;
}

/**
 * What a `PageQueue` of yours has to do, for any test runner:
 * `for (const { name, check } of pageQueueConformance({ create })) it(name, check)`. Give each time enough for
 * `withinMs`.
 */
export function pageQueueConformance({ create, withinMs = 60_000 }: ConformanceOptions): PageQueueCheck[] {
  return CHECKS.map(({ name, check }) => ({
    name,
    check: async () => {
      const scene = new Scene(create, withinMs);
      try {
        await check(scene);
      } finally {
        await scene.end();
      }
    },
  }));
}

const CHECKS: readonly { readonly name: string; check(scene: Scene): Promise<void> }[] = [
  {
    name: 'delivers every ticket, as it was enqueued, also what came before the worker',
    check: async (scene) => {
      const tickets = scene.tickets(100);
      const seen = new Map<string, PageTicket>();
      const queue = await scene.client();
      await queue.enqueue(scene.job, tickets.slice(0, 50));
      queue.work(scene.job, async (ticket) => void seen.set(ticket.id, ticket), { concurrency: 10 });
      await queue.enqueue(scene.job, tickets.slice(50));
      await scene.until('every ticket is delivered', () => seen.size === tickets.length);
      for (const ticket of tickets) same(seen.get(ticket.id), ticket);
    },
  },
  {
    name: 'takes one id several times, and delivers it at least once and not more often than it was given',
    check: async (scene) => {
      const [ticket, last] = scene.tickets(2);
      const queue = await scene.client();
      for (let time = 0; time < 3; time++) await queue.enqueue(scene.job, [ticket!]);
      await queue.enqueue(scene.job, [last!]);
      const seen: string[] = [];
      queue.work(scene.job, async ({ id }) => void seen.push(id), { concurrency: 1 });
      await scene.until('both tickets are delivered', () => seen.includes(ticket!.id) && seen.includes(last!.id));
      await pause(500);
      const times = seen.filter((id) => id === ticket!.id).length;
      if (times > 3) throw new Error(`One ticket was enqueued 3 times and delivered ${times} times.`);
    },
  },
  {
    name: 'spreads the tickets over the workers of all clients',
    check: async (scene) => {
      const tickets = scene.tickets(20);
      const seen = [new Set<string>(), new Set<string>()];
      const clients = [await scene.client(), await scene.client()];
      // Each worker keeps its first ticket until the other one has got one, too.
      const both = () => scene.until('both workers get tickets', () => seen.every(({ size }) => size > 0));
      clients.forEach((client, index) =>
        client.work(
          scene.job,
          async ({ id }) => {
            seen[index]!.add(id);
            await both();
          },
          { concurrency: 1 },
        ),
      );
      await clients[0]!.enqueue(scene.job, tickets);
      await scene.until(
        'every ticket is delivered',
        () => new Set(seen.flatMap((ids) => [...ids])).size === tickets.length,
      );
    },
  },
  {
    name: 'has at most as many deliveries in hand in one worker as its concurrency says, and as many where there is work',
    check: async (scene) => {
      const tickets = scene.tickets(24);
      const seen = new Set<string>();
      let [inHand, most] = [0, 0];
      const queue = await scene.client();
      await queue.enqueue(scene.job, tickets);
      queue.work(
        scene.job,
        async ({ id }) => {
          inHand += 1;
          most = Math.max(most, inHand);
          await pause(100);
          inHand -= 1;
          seen.add(id);
        },
        { concurrency: 3 },
      );
      await scene.until('every ticket is delivered', () => seen.size === tickets.length);
      if (most > 3) throw new Error(`Concurrency was 3, and ${most} deliveries were in hand at once.`);
      if (most < 2) throw new Error('Concurrency was 3, and deliveries came one after the other.');
    },
  },
  {
    name: 'delivers again what could not be dealt with',
    check: async (scene) => {
      const [ticket] = scene.tickets(1);
      let deliveries = 0;
      const queue = await scene.client();
      queue.work(
        scene.job,
        async () => {
          deliveries += 1;
          if (deliveries < 3) throw new Error('not now');
        },
        { concurrency: 1 },
      );
      await queue.enqueue(scene.job, [ticket!]);
      await scene.until('the ticket is delivered a third time', () => deliveries >= 3);
    },
  },
  {
    name: 'delivers to others what a worker had that is gone',
    check: async (scene) => {
      const [ticket] = scene.tickets(1);
      const doomed = await scene.client();
      let taken = false;
      doomed.work(
        scene.job,
        () => {
          taken = true;
          return new Promise(() => {});
        },
        { concurrency: 1 },
      );
      await doomed.enqueue(scene.job, [ticket!]);
      await scene.until('the ticket is delivered', () => taken);
      await doomed.close();
      let again = false;
      (await scene.client()).work(scene.job, async () => void (again = true), { concurrency: 1 });
      await scene.until('the ticket is delivered to another worker', () => again);
    },
  },
  {
    name: 'stops a worker only when it has dealt with what it has in hand, and gives it nothing more',
    check: async (scene) => {
      const [first, second] = scene.tickets(2);
      const leaving = await scene.client();
      const seen: string[] = [];
      let dealtWith!: () => void;
      const held = new Promise<void>((resolve) => (dealtWith = resolve));
      const worker = leaving.work(
        scene.job,
        async ({ id }) => {
          seen.push(id);
          await held;
        },
        { concurrency: 2 },
      );
      await leaving.enqueue(scene.job, [first!]);
      await scene.until('the first ticket is delivered', () => seen.length === 1);
      let stopped = false;
      const stopping = worker.stop().then(() => (stopped = true));
      await pause(300);
      if (stopped) throw new Error('stop() resolved while a delivery was in hand.');
      await leaving.enqueue(scene.job, [second!]);
      await pause(300);
      if (seen.length > 1) throw new Error('A worker that was told to stop got another delivery.');
      dealtWith();
      await scene.until('stop() resolves when the delivery is dealt with', () => stopped);
      await stopping;
      const others: string[] = [];
      (await scene.client()).work(scene.job, async ({ id }) => void others.push(id), { concurrency: 1 });
      await scene.until('another worker gets the second ticket', () => others.includes(second!.id));
      if (others.includes(first!.id)) throw new Error('A delivery that was dealt with during stop() was made again.');
    },
  },
  {
    name: 'keeps jobs apart, whatever their names',
    check: async (scene) => {
      const jobs = [`${scene.job}: Büro / 1`, `${scene.job}: büro / 1`, `${scene.job}_ Büro _ 1`];
      const queue = await scene.client();
      const seen = jobs.map(() => [] as string[]);
      jobs.forEach((job, index) =>
        queue.work(job, async ({ jobName }) => void seen[index]!.push(jobName), { concurrency: 2 }),
      );
      for (const job of jobs) await queue.enqueue(job, scene.tickets(5, job));
      await scene.until('all tickets are delivered', () => seen.every(({ length }) => length >= 5));
      jobs.forEach((job, index) => {
        const stranger = seen[index]!.find((jobName) => jobName !== job);
        if (stranger !== undefined) throw new Error(`A worker of job "${job}" got a ticket of "${stranger}".`);
      });
    },
  },
];

/** One check's clients, on a job of its own. */
class Scene {
  readonly job = `conformance ${Math.random().toString(36).slice(2)}`;
  private readonly clients: PageQueue[] = [];

  constructor(
    private readonly create: ConformanceOptions['create'],
    private readonly withinMs: number,
  ) {}

  async client(): Promise<PageQueue> {
    const client = await this.create();
    this.clients.push(client);
    return client;
  }

  tickets(count: number, jobName = this.job): PageTicket[] {
    return Array.from({ length: count }, (_, index) =>
      pageTicket({ jobName, fireTime: new Date('2026-03-10T02:15:00Z'), page: `page ${index}` }, 0),
    );
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    const end = performance.now() + this.withinMs;
    while (!holds()) {
      if (performance.now() > end) throw new Error(`Waited ${this.withinMs} ms until ${what}.`);
      await pause(20);
    }
  }

  async end(): Promise<void> {
    await Promise.allSettled(this.clients.map((client) => client.close()));
  }
}

function same(seen: PageTicket | undefined, given: PageTicket): void {
  const [got, wanted] = [seen, given].map(
    (ticket) =>
      ticket &&
      JSON.stringify([
        ticket.id,
        ticket.jobName,
        ticket.fireTime instanceof Date && ticket.fireTime.toISOString(),
        ticket.page,
        ticket.ticket,
      ]),
  );
  if (got !== wanted) throw new Error(`A ticket was enqueued as ${wanted} and delivered as ${got}.`);
}
