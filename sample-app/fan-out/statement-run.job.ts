import { Injectable } from '@nestjs/common';
import {
  CronRun,
  DistributedCron,
  DistributedCronPage,
  FanOutService,
  ReceiptService,
  type Page,
} from 'nestjs-distributed-cron';
import { Statement } from '../src/mailing/statement.entity.js';

export const STATEMENT_RUN = 'statement-run';
/** Fewer for a quick look: a multiple of the number of pages. */
export const CUSTOMERS = Number(process.env.FAN_OUT_CUSTOMERS ?? 20_000);
export const PAGES = 200;

/** The customers of one page: those above `after`, up to and with `upTo`. */
interface Range {
  readonly after: number;
  readonly upTo: number;
}

/** A statement for each customer, once a month: too much for one instance, so that all of them take a part. */
@Injectable()
export class StatementRunJob {
  constructor(
    private readonly fanOut: FanOutService,
    private readonly receipts: ReceiptService,
  ) {}

  /** Only says which parts there are, and is over in a moment. */
  @DistributedCron('0 2 1 * *', { name: STATEMENT_RUN, owner: 'billing', overlap: 'forbid', missed: 'once' })
  async publish(): Promise<void> {
    const size = CUSTOMERS / PAGES;
    await this.fanOut.publish<Range>(
      Array.from({ length: PAGES }, (_, index) => ({
        id: `customers-${index + 1}`,
        data: { after: index * size, upTo: (index + 1) * size },
      })),
    );
  }

  /** What an attempt has written before it was killed is not written again by the next one. */
  @DistributedCronPage(STATEMENT_RUN, { concurrency: 4 })
  async issue({ fireTime, attempt, signal }: CronRun, { data: { after, upTo } }: Page<Range>): Promise<void> {
    for (let customerId = after + 1; customerId <= upTo; customerId++) {
      signal.throwIfAborted();
      await this.receipts.once(customerId, async (manager) => {
        await manager.insert(Statement, {
          customerId,
          fireTime,
          attempt,
          balanceCents: String((customerId * 7_919) % 90_000),
        });
      });
    }
  }
}
