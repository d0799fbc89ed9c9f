import { type EntityManager, Repository } from 'typeorm';
import { type Queryable, queryOn } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { callAlone, type Statement } from '../database/transactions.js';
import type { StoredError } from '../errors/stored-error.js';
import type { OwnedRun, ReceiptKey, RunKey } from '../options/run.js';
import { fenceOf } from '../runs/job-run.repository.js';
import { Receipt, type ReceiptState } from './receipt.entity.js';
import type { InDoubtPolicy } from './receipt-options.js';

/** How long a transaction without a lease may do nothing, in milliseconds, before the server ends it. */
const MOST_IDLE_MS = 60_000;

/** How a result goes to the database: in a form that every encoding has. Whether it can be kept is decided there. */
export function resultToKeep(json: string | null): string | null {
  return json && Buffer.from(json).toString('base64');
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

/** What the functions that write a receipt answer: every column is a text. */
export interface ReceiptRow {
  readonly verdict: ReceiptAnswer['kind'];
  readonly kept: string | null;
  /** Of an occurrence's: its attempt, null where it has no row. */
  readonly of_attempt?: string | null;
}

export function receiptAnswer({ verdict, kept }: ReceiptRow): ReceiptAnswer {
  return verdict === 'there' ? { kind: verdict, result: readKept(kept) } : { kind: verdict };
}

/** What was found when a call was to be made. */
export type CallAnswer =
  /** The call is ours to make, under this key; again, when an earlier one may have got through. */
  | { readonly kind: 'opened'; readonly idempotencyKey: string; readonly again: boolean }
  /** It was made, and this is what it answered. */
  | { readonly kind: 'there'; readonly result: unknown }
  /** Nobody knows what came of the call of that attempt; just parked, or a person's already. */
  | {
      readonly kind: 'in doubt';
      readonly parked: boolean;
      readonly attempt: number;
      readonly error: StoredError | null;
    }
  /** The receipt is one of an effect in the database. */
  | { readonly kind: 'mixed' }
  /** The run is no longer ours. */
  | { readonly kind: 'refused' };

/** A receipt of a batch that is to be written. */
export interface BatchEntry {
  readonly entity: string;
  readonly idempotencyKey: string;
}

/**
 * The receipts. Everybody may read them; they are written by `ReceiptService` alone, in the effect's transaction, each
 * step by one function of the database.
 */
export class ReceiptRepository extends Repository<Receipt> {
  constructor(private readonly database: SchedulerDatabase) {
    super(Receipt, database.coordination.manager);
  }

  /** The receipts of one occurrence, oldest first. */
  ofOccurrence({ jobName, fireTime }: RunKey): Promise<Receipt[]> {
    return this.find({ where: { jobName, fireTime }, order: { createdAt: 'ASC' } });
  }

  /** Those of the entities whose effect has happened. */
  async withReceipt(target: Queryable, run: RunKey, effect: string, entities: readonly string[]): Promise<Set<string>> {
    const rows = await queryOn(target)<{ entity: string }>(
      `select entity
       from   ${this.database.tables.receipts}
       where  job_name = $1
       and    fire_time = $2
       and    effect = $3
       and    entity = any ($4::text[])
       and    state = 'done'`,
      [run.jobName, run.fireTime.toISOString(), effect, entities],
    );
    return new Set(rows.map(({ entity }) => entity));
  }

  /**
   * Writes the receipt if the run is ours and it is not there; waits for a transaction that is about to write the same.
   * The transaction can be told by its lock, taken before it may have to wait: whoever takes the run over ends it.
   * @param own in a transaction of the receipt's own
   */
  begin(run: OwnedRun, { entity, effect }: ReceiptKey, idempotencyKey: string, own: boolean): Statement {
    return this.calling('receipt_begin_1', [...fence(run), entity, effect, idempotencyKey, String(own)]);
  }

  /**
   * The last statement before the commit, with which it is sent: keeps the result, and holds the run, or the page, so
   * that nobody takes it over until the transaction ends. It fails when the run is no longer ours, see
   * `isRefusedClose`.
   * @param result JSON, or null to keep none
   */
  end(run: OwnedRun, { entity, effect }: ReceiptKey, result: string | null): Statement {
    return this.calling('receipt_end_1', [...fence(run), entity, effect, resultToKeep(result)]);
  }

  /** Keeps what the effect returned; nothing to do for null. */
  keep({ jobName, fireTime }: RunKey, { entity, effect }: ReceiptKey, result: string | null): Statement[] {
    const values = [jobName, fireTime.toISOString(), entity, effect, resultToKeep(result)];
    return result === null ? [] : [this.calling('receipt_keep_1', values)];
  }

  /**
   * Writes those receipts of one effect that are not there, if the run is ours. In one order everywhere, so that batches
   * that meet wait for each other and never in a circle.
   */
  beginAll(run: OwnedRun, effect: string, entries: readonly BatchEntry[]): Statement {
    const [entities, keys] = [entries.map(({ entity }) => entity), entries.map(({ idempotencyKey }) => idempotencyKey)];
    return this.calling('receipt_begin_all_1', [...fence(run), effect, entities, keys]);
  }

  /** The entities whose receipts `beginAll` wrote; null when the run is not ours. */
  begunOf(rows: unknown[]): Set<string> | null {
    const begun = (rows as { begun: string | null }[]).map((row) => row.begun);
    return begun.length > 0 ? new Set(begun.filter((entity) => entity !== null)) : null;
  }

  /**
   * Writes a receipt that belongs to an occurrence and to no attempt at it, if the occurrence has a row and the receipt
   * is not there. There is no lease, so there is no fence.
   * @param own in a transaction of the receipt's own
   */
  beginForOccurrence(
    { jobName, fireTime }: RunKey,
    { entity, effect }: ReceiptKey,
    writer: string,
    idempotencyKey: string,
    own: boolean,
  ): Statement {
    const values = [jobName, fireTime.toISOString(), writer, entity, effect, idempotencyKey, String(own), MOST_IDLE_MS];
    return this.calling('receipt_begin_for_occurrence_1', values);
  }

  /**
   * Holds the run in whatever state it is: the first statement of a receipt in a transaction of the application's that is
   * repeatable read or serializable. Its snapshot shows the lease as it was when the transaction began, so the run is
   * held first, and then looked at from outside: nobody reaps a run that is held, and what the look finds holds until
   * the transaction ends.
   */
  hold(run: OwnedRun): Statement {
    return this.calling('receipt_hold_1', fence(run));
  }

  /** Whether the run looked like ours when it was held, and, as it is now, is ours. @param rows of `hold` */
  async isHeldByUs(run: OwnedRun, rows: unknown[]): Promise<boolean> {
    if ((rows as [{ receipt_hold_1: string }])[0].receipt_hold_1 !== 'held') return false;
    const [row] = await this.database.call<{ receipt_is_ours_1: boolean }>('receipt_is_ours_1', fence(run));
    return row!.receipt_is_ours_1;
  }

  /** Writes the receipt of a run that is held, and has been found ours. */
  write(run: OwnedRun, { entity, effect }: ReceiptKey, idempotencyKey: string): Statement {
    return this.calling('receipt_write_1', [...fenceOf(run), entity, effect, idempotencyKey]);
  }

  /**
   * Opens the receipt of a call, or says what the one that is there means. It is committed, for good, before the call is
   * made, and opened by the owner of the run alone. What came of the call is written by whoever made it, whatever has
   * become of the run since: it is a fact, and the only one who knows it may have lost the lease meanwhile. It goes to
   * that attempt's own call, and only while nobody has made it again or decided about it.
   */
  async openCall(
    manager: EntityManager,
    run: OwnedRun,
    { entity, effect }: ReceiptKey,
    idempotencyKey: string,
    policy: InDoubtPolicy,
  ): Promise<CallAnswer> {
    const values = [...fence(run), entity, effect, idempotencyKey, policy];
    const row = await this.alone<CallRow>(manager, 'receipt_call_open_1', values);
    switch (row.step) {
      case 'refused':
        return { kind: 'refused' };
      case 'refuse':
        return { kind: 'mixed' };
      case 'skip':
        return { kind: 'there', result: readKept(row.kept) };
      case 'park':
      case 'leave': {
        const error = row.failure === null ? null : (JSON.parse(row.failure) as StoredError);
        return { kind: 'in doubt', parked: row.step === 'park', attempt: Number(row.of_attempt), error };
      }
      case 'call':
      case 'call again':
        return { kind: 'opened', idempotencyKey: row.key, again: row.step === 'call again' };
    }
  }

  /**
   * The call has been answered. Asked again, because the answer to this was lost, it finds what it has written.
   * @param result JSON, or null to keep none
   * @returns `late` when it is kept, and the run is no longer ours; `refused` when the call was made again since, or a
   * person has decided about it
   */
  async closeCall(
    manager: EntityManager,
    run: OwnedRun,
    { entity, effect }: ReceiptKey,
    result: string | null,
  ): Promise<'closed' | 'late' | 'refused'> {
    const values = [...fence(run), entity, effect, resultToKeep(result)];
    const row = await this.alone<{ receipt_call_close_1: 'closed' | 'late' | 'refused' }>(
      manager,
      'receipt_call_close_1',
      values,
    );
    return row.receipt_call_close_1;
  }

  /**
   * The call has failed. It may have got through all the same, then it stays `open` for the next attempt or is a
   * person's from now on (`in_doubt`); or it surely did not (`undone`), then whoever comes next makes it. What is in
   * doubt since stays with its person, who can read the error.
   * @returns whether it became that
   */
  async failCall(
    manager: EntityManager,
    run: OwnedRun,
    { entity, effect }: ReceiptKey,
    error: StoredError,
    becomes: Exclude<ReceiptState, 'done'>,
  ): Promise<boolean> {
    const values = [...fenceOf(run), entity, effect, JSON.stringify(error), becomes];
    const row = await this.alone<{ receipt_call_fail_1: string }>(manager, 'receipt_call_fail_1', values);
    return row.receipt_call_fail_1 === 'became';
  }

  private calling(name: string, values: Statement['values']): Statement {
    return this.database.tables.calling(name, values);
  }

  private async alone<Row>(manager: EntityManager, name: string, values: Statement['values']): Promise<Row> {
    const [row] = await callAlone<Row>(manager, this.calling(name, values));
    return row!;
  }
}

/** What `receipt_call_open_1` answers: every column is a text. */
interface CallRow {
  readonly step: 'skip' | 'call' | 'call again' | 'park' | 'leave' | 'refuse' | 'refused';
  readonly key: string;
  readonly of_attempt: string;
  readonly kept: string | null;
  readonly failure: string | null;
}

/** The first five parameters of a receipt's functions: those of every fence, and the page, if it is one's. */
function fence(run: OwnedRun): [string, string, number, string, string | null] {
  return [...fenceOf(run), run.page ?? null];
}

/** @param kept what a receipt keeps, as JSON; null for nothing */
function readKept(kept: string | null): unknown {
  return kept === null ? undefined : (JSON.parse(kept) as unknown);
}
