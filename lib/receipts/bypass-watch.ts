import { Injectable } from '@nestjs/common';
import type { EntityManager, QueryRunner } from 'typeorm';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ReceiptKey } from '../options/run.js';

/** Which attempt an effect belongs to. */
interface Attempt {
  readonly jobName: string;
  readonly fireTime: Date;
  readonly attempt: number;
}

/** How often connections whose uses are counted were asked for. */
const uses = new WeakMap<QueryRunner, { count: number }>();

/**
 * Notices effects that never used their transaction: what they wrote went over another connection, as with an injected
 * repository, and is not taken back with the receipt. In development only; in production nothing is counted.
 */
@Injectable()
export class BypassWatch {
  private readonly told = new Set<string>();

  constructor(private readonly events: SchedulerEvents) {}

  async watch<Result>(
    attempt: Attempt,
    key: ReceiptKey,
    manager: EntityManager,
    effect: () => Promise<Result> | Result,
  ): Promise<Result> {
    if (process.env['NODE_ENV'] === 'production') return effect();
    const used = counted(manager.queryRunner!);
    const before = used.count;
    const result = await effect();
    if (used.count === before) this.tell(attempt, key);
    return result;
  }

  /** Once for each effect of a job. */
  private tell({ jobName, fireTime, attempt }: Attempt, key: ReceiptKey): void {
    const what = JSON.stringify([jobName, key.effect]);
    if (this.told.has(what)) return;
    this.told.add(what);
    this.events.emit({ type: 'receipt.bypassed', jobName, fireTime, attempt, ...key });
  }
}

/** Every statement asks for its connection first, whatever it goes through. */
function counted(queryRunner: QueryRunner): { readonly count: number } {
  const known = uses.get(queryRunner);
  if (known) return known;
  const counter = { count: 0 };
  const connect = queryRunner.connect.bind(queryRunner);
  queryRunner.connect = () => {
    counter.count += 1;
    return connect();
  };
  uses.set(queryRunner, counter);
  return counter;
}
