import { Injectable } from '@nestjs/common';
import { setTimeout as sleep } from 'node:timers/promises';

/** The bank's interface, as banks' interfaces are: whatever is asked for twice is unavailable, then it works. */
@Injectable()
export class Bank {
  async paymentsOf(day: Date, attempt: number): Promise<{ payments: number }> {
    await sleep(150);
    if (attempt <= 2) throw new Error('The bank answered 503 Service Unavailable');
    return { payments: 1 + ((day.getTime() / 1_000) % 7) };
  }
}
