import { Injectable } from '@nestjs/common';
import type { PageTicket } from '../../domain/effects/page.js';
import { PageStore } from '../../store/pages/page.store.js';
import { PageQueues } from './page-queues.js';

/** How long the queue gets to take tickets, in milliseconds: no tick is to wait for one that is gone. */
const PATIENCE_MS = 10_000;

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
      await inTime(queue.enqueue(jobName, own));
      await this.store.handedOver(own);
    }
  }

  failed(error: unknown): void {
    this.queues.failed(error);
  }
}

async function inTime(work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`The page queue gave no answer for ${PATIENCE_MS / 1_000} s.`)), PATIENCE_MS);
    timer.unref();
  });
  await Promise.race([work, late]).finally(() => clearTimeout(timer));
}
