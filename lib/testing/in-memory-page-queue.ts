import type { PageTicket } from '../fan-out/page.js';
import type { PageQueue, PageWork, PageWorker } from '../fan-out/page.js';

/** How soon a delivery is made again that was given back, in milliseconds. */
const AGAIN_AFTER_MS = 10;

/**
 * A page queue within one process, for tests of applications whose pages need no second one; what it has goes with it.
 * Several clients of one queue stand for several processes.
 */
export class InMemoryPageQueue implements PageQueue {
  private readonly jobs: Map<string, InMemoryJob>;
  private readonly workers = new Map<InMemoryWorker, InMemoryJob>();

  /** @param queue makes this another client of that one */
  constructor(queue?: InMemoryPageQueue) {
    this.jobs = queue ? queue.jobs : new Map();
  }

  async enqueue(jobName: string, tickets: readonly PageTicket[]): Promise<void> {
    this.job(jobName).add(tickets);
  }

  work(jobName: string, work: PageWork, { concurrency }: { readonly concurrency: number }): PageWorker {
    const job = this.job(jobName);
    const worker = new InMemoryWorker(work, concurrency);
    this.workers.set(worker, job);
    job.join(worker);
    return {
      stop: async () => {
        job.leave(worker);
        await worker.idle();
        this.workers.delete(worker);
      },
    };
  }

  async close(): Promise<void> {
    for (const [worker, job] of this.workers) {
      job.leave(worker);
      job.add(worker.abandon());
    }
    this.workers.clear();
  }

  private job(jobName: string): InMemoryJob {
    const job = this.jobs.get(jobName) ?? new InMemoryJob();
    this.jobs.set(jobName, job);
    return job;
  }
}

class InMemoryJob {
  private readonly waiting = new Map<string, PageTicket>();
  private readonly workers = new Set<InMemoryWorker>();

  add(tickets: readonly PageTicket[]): void {
    for (const ticket of tickets) this.waiting.set(ticket.id, ticket);
    this.deliver();
  }

  join(worker: InMemoryWorker): void {
    this.workers.add(worker);
    this.deliver();
  }

  leave(worker: InMemoryWorker): void {
    this.workers.delete(worker);
  }

  private deliver(): void {
    for (const ticket of [...this.waiting.values()]) {
      const worker = [...this.workers].find((one) => one.hasRoom);
      if (!worker) return;
      this.waiting.delete(ticket.id);
      worker.take(ticket).then(
        () => this.deliver(),
        () => void setTimeout(() => this.add([ticket]), AGAIN_AFTER_MS).unref(),
      );
    }
  }
}

class InMemoryWorker {
  private readonly inHand = new Map<PageTicket, Promise<void>>();

  constructor(
    private readonly work: PageWork,
    private readonly concurrency: number,
  ) {}

  get hasRoom(): boolean {
    return this.inHand.size < this.concurrency;
  }

  take(ticket: PageTicket): Promise<void> {
    const working = Promise.resolve()
      .then(() => this.work(ticket))
      .finally(() => this.inHand.delete(ticket));
    this.inHand.set(ticket, working);
    return working;
  }

  async idle(): Promise<void> {
    await Promise.allSettled([...this.inHand.values()]);
  }

  /** @returns what it had in hand */
  abandon(): PageTicket[] {
    return [...this.inHand.keys()];
  }
}
