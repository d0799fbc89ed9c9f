import { Injectable } from '@nestjs/common';
import type { PageTicket } from '../domain/page.js';
import { PageStore } from '../store/page.store.js';
import { PageQueues } from './page-queues.js';

/** Hands tickets to the queue, and notes that. A crash in between hands them over twice, which is harmless. */
@Injectable()
export class PageHandOver {
  constructor(
    private readonly queues: PageQueues,
    private readonly store: PageStore,
  ) {}

  async hand(tickets: readonly PageTicket[]): Promise<void> {
    const byJob = new Map<string, PageTicket[]>();
    for (const ticket of tickets) {
      const own = byJob.get(ticket.jobName);
      if (own) own.push(ticket);
      else byJob.set(ticket.jobName, [ticket]);
    }
    for (const [jobName, own] of byJob) {
      const queue = await this.queues.open();
      await queue.enqueue(jobName, own);
      await this.store.handedOver(own);
    }
  }

  failed(error: unknown): void {
    this.queues.failed(error);
  }
}
