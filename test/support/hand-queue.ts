import type { PageQueue, PageTicket } from '../../lib/index.js';

/** A page queue that delivers when the test says so, and as often. */
export class HandQueue implements PageQueue {
  readonly tickets: PageTicket[] = [];
  broken = false;
  private work_: ((ticket: PageTicket) => Promise<void>) | null = null;

  async enqueue(_jobName: string, tickets: readonly PageTicket[]) {
    if (this.broken) throw new Error('the queue is down');
    this.tickets.push(...tickets);
  }

  work(_jobName: string, work: (ticket: PageTicket) => Promise<void>) {
    this.work_ = work;
    return { stop: async () => undefined };
  }

  async close() {}

  get isWorked(): boolean {
    return this.work_ !== null;
  }

  deliver(ticket: PageTicket): Promise<void> {
    return this.work_!(ticket);
  }
}
