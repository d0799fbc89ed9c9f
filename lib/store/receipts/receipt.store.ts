import type { EntityManager } from 'typeorm';
import type { OwnedRun, RunKey } from '../../domain/runs/run.js';
import { queryOn } from '../connection/query.js';
import { receiptFence } from './receipt-owner.js';
import { orRefused } from './refused-close.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import type { Statement } from '../connection/statement.js';

/** What a receipt stands for within its run. */
export interface ReceiptKey {
  readonly entity: string;
  readonly effect: string;
}

/** What was found when a receipt was to be written. */
export type ReceiptAnswer =
  /** It is ours to fill: the effect has not happened. */
  | { readonly kind: 'opened' }
  /** The effect has happened, in this attempt or an earlier one. */
  | { readonly kind: 'there'; readonly result: unknown }
  /** It is the receipt of a call outside the database. */
  | { readonly kind: 'external' }
  /** The run is no longer ours. */
  | { readonly kind: 'refused' };

/** The statements of a receipt, in the transaction that also holds the effect. */
export class ReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Writes the receipt if the run is ours and it is not there; waits for a transaction that is about to write the same.
   * The transaction can be told by its lock, taken before it may have to wait: whoever takes the run over ends it.
   */
  async open(manager: EntityManager, run: OwnedRun, key: ReceiptKey, idempotencyKey: string): Promise<ReceiptAnswer> {
    const { text, values } = this.opening(run, key, idempotencyKey);
    const query = queryOn(manager);
    return this.answerOf(await query(text, [...values]), async ({ text: question, values: about }) => query(question, [...about]), run, key);
  }

  /** What `open` asks first, for whoever sends it together with something else. */
  opening(run: OwnedRun, key: ReceiptKey, idempotencyKey: string): Statement {
    const text = `select ${this.database.tables.receiptBegin}($1, $2, $3, $4, $5, $6, $7, $8) as opened`;
    return { text, values: [...receiptFence(run), key.entity, key.effect, idempotencyKey] };
  }

  /** Reads the rows of `opening`; where it was not opened, asks why. */
  async answerOf(opened: unknown[], ask: (statement: Statement) => Promise<unknown[]>, run: OwnedRun, key: ReceiptKey): Promise<ReceiptAnswer> {
    if ((opened as [{ opened: boolean }])[0].opened) return { kind: 'opened' };
    const { receiptMayBegin } = this.database.tables;
    const [fence] = (await ask({ text: `select ${receiptMayBegin}($1, $2, $3, $4, $5) as owned`, values: receiptFence(run) })) as [{ owned: boolean }];
    if (!fence.owned) return { kind: 'refused' };
    return this.thereOf(await ask(this.kept(run, key)));
  }

  /** Reads the rows of `kept`. */
  thereOf([there]: unknown[]): ReceiptAnswer {
    const { kept, external, result } = (there ?? { kept: false, external: false }) as { kept: boolean; external: boolean; result?: unknown };
    if (external) return { kind: 'external' };
    return { kind: 'there', result: kept ? result : undefined };
  }

  /** Asks for the result that a receipt keeps, and whether it is one of a call outside the database. */
  kept(run: RunKey, key: ReceiptKey): Statement {
    return {
      text: `
       select result is not null as kept, result, opened_at is not null as external
       from   ${this.database.tables.receipts}
       where  job_name = $1
       and    fire_time = $2
       and    entity = $3
       and    effect = $4`,
      values: [run.jobName, run.fireTime.toISOString(), key.entity, key.effect],
    };
  }

  /**
   * The last statement before the commit: keeps the result, and holds the run, or the page, so that nobody takes it over until the
   * transaction ends. The lock lets heartbeats pass: were it stronger, a process that is busy with something else before
   * its commit would hold up the renewal of all its leases.
   * @param result JSON, or null to keep none
   * @returns false when the run is no longer ours: the transaction must be rolled back
   */
  async close(manager: EntityManager, run: OwnedRun, key: ReceiptKey, result: string | null): Promise<boolean> {
    const { text, values } = this.ending(run, key, result);
    const [row] = await queryOn(manager)<{ owned: boolean }>(`select ${text} as owned`, [...values]);
    return row!.owned;
  }

  /** What `close` asks, for whoever sends it together with the commit: it fails when the run is no longer ours, see `isRefusedClose`. */
  closing(run: OwnedRun, key: ReceiptKey, result: string | null): Statement {
    const { text, values } = this.ending(run, key, result);
    return orRefused(text, values);
  }

  /** Keeps what the effect returned; nothing to do for null. */
  keeping(run: RunKey, key: ReceiptKey, result: string | null): Statement[] {
    if (result === null) return [];
    const text = `
      update ${this.database.tables.receipts}
      set    result = $5::jsonb
      where  job_name = $1
      and    fire_time = $2
      and    entity = $3
      and    effect = $4`;
    return [{ text, values: [run.jobName, run.fireTime.toISOString(), key.entity, key.effect, result] }];
  }

  private ending(run: OwnedRun, key: ReceiptKey, result: string | null): Statement {
    return { text: `${this.database.tables.receiptEnd}($1, $2, $3, $4, $5, $6, $7, $8)`, values: [...receiptFence(run), key.entity, key.effect, result] };
  }
}
