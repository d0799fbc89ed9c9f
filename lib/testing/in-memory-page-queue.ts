import type { PageTicket } from '../domain/page.js';
import type { PageQueue, PageWork, PageWorker } from '../domain/page-queue.js';

/** A page queue within one process, for tests of applications whose pages need no second one. What it has goes with it. */
export class InMemoryPageQueue implements PageQueue {
  private readonly jobs = new Map<string, InMemoryJob>();

  async enqueue(jobName: string, tickets: readonly PageTicket[]): Promise<void> {
    this.job(jobName).add(tickets);
  }

  work(jobName: string, work: PageWork, { concurrency }: { readonly concurrency: number }): PageWorker {
    return this.job(jobName).join(new InMemoryWorker(work, concurrency));
  }

  /** It has no connections; several applications of one test may share it. */
  async close(): Promise<void> {}

  private job(jobName: string): InMemoryJob {
    const job = this.jobs.get(jobName) ?? new InMemoryJob();
    this.jobs.set(jobName, job);
    return job;
  }
}

class InMemoryJob {
  private readonly waiting = new Map<string, PageTicket>();
  private readonly inHand = new Set<string>();
  private readonly workers = new Set<InMemoryWorker>();

  add(tickets: readonly PageTicket[]): void {
    for (const ticket of tickets) if (!this.inHand.has(ticket.id)) this.waiting.set(ticket.id, ticket);
    this.deliver();
  }

  join(worker: InMemoryWorker): PageWorker {
    this.workers.add(worker);
    this.deliver();
    return {
      stop: async () => {
        this.workers.delete(worker);
        await worker.idle();
      },
    };
  }

  private deliver(): void {
    for (const ticket of [...this.waiting.values()]) {
      const worker = [...this.workers].find((one) => one.hasRoom);
      if (!worker) return;
      this.waiting.delete(ticket.id);
      this.inHand.add(ticket.id);
      worker.take(ticket).then(
        () => this.settled(ticket),
        () => {
          // Given back: it is delivered again, in a turn of its own.
          this.settled(ticket);
          setTimeout(() => this.add([ticket]), 10).unref();
        },
      );
    }
  }

  private settled(ticket: PageTicket): void {
    this.inHand.delete(ticket.id);
    this.deliver();
  }
}

class InMemoryWorker {
  private readonly busy = new Set<Promise<void>>();

  constructor(
    private readonly work: PageWork,
    private readonly concurrency: number,
  ) {}

  get hasRoom(): boolean {
    return this.busy.size < this.concurrency;
  }

  take(ticket: PageTicket): Promise<void> {
    const working = Promise.resolve().then(() => this.work(ticket));
    this.busy.add(working);
    const end = () => this.busy.delete(working);
    working.then(end, end);
    return working;
  }

  async idle(): Promise<void> {
    await Promise.allSettled([...this.busy]);
  }
}
