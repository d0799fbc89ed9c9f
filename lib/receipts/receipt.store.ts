import type { EntityManager } from 'typeorm';
import { type Queryable, queryOn } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { postgresError } from '../database/sql-state.js';
import { callAlone, type Statement } from '../database/transactions.js';
import type { OwnedRun, RunKey } from '../options/run.js';
import { fenceOf } from '../runs/job-run.repository.js';

/**
 * True for the failure of a statement that was sent with a commit: the run is no longer ours, and nothing was
 * committed. It is raised by `refuse_1`.
 */
export function isRefusedClose(error: unknown): boolean {
  return postgresError(error).code === 'NDC01';
}

/**
 * The first five parameters of a receipt's functions: job, fire time, attempt, instance, and the page, if it is one's.
 */
export function receiptFence(run: OwnedRun): [string, string, number, string, string | null] {
  return [...fenceOf(run), run.page ?? null];
}

/** How a result goes to the database: in a form that every encoding has. Whether it can be kept is decided there. */
export function resultToKeep(json: string | null): string | null {
  return json && Buffer.from(json).toString('base64');
}

/** @param kept what a receipt keeps, as JSON; null for nothing */
export function readKept(kept: string | null): unknown {
  return kept === null ? undefined : (JSON.parse(kept) as unknown);
}

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

/** What the functions that write a receipt answer: every column is a text. */
export interface ReceiptRow {
  readonly verdict: ReceiptAnswer['kind'];
  readonly kept: string | null;
}

export function receiptAnswer({ verdict, kept }: ReceiptRow): ReceiptAnswer {
  return verdict === 'there' ? { kind: verdict, result: readKept(kept) } : { kind: verdict };
}

/** The statements of a receipt, in the transaction that also holds the effect. */
export class ReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Writes the receipt if the run is ours and it is not there; waits for a transaction that is about to write the same.
   * The transaction can be told by its lock, taken before it may have to wait: whoever takes the run over ends it.
   */
  async open(manager: EntityManager, run: OwnedRun, key: ReceiptKey, idempotencyKey: string): Promise<ReceiptAnswer> {
    const [row] = await callAlone<ReceiptRow>(manager, this.opening(run, key, idempotencyKey, false));
    return receiptAnswer(row!);
  }

  /** @param own in a transaction of the receipt's own */
  opening(run: OwnedRun, key: ReceiptKey, idempotencyKey: string, own: boolean): Statement {
    return this.database.tables.calling('receipt_begin_1', [
      ...receiptFence(run),
      key.entity,
      key.effect,
      idempotencyKey,
      String(own),
    ]);
  }

  /**
   * The last statement before the commit, with which it is sent: keeps the result, and holds the run, or the page, so
   * that nobody takes it over until the transaction ends. It fails when the run is no longer ours, see
   * `isRefusedClose`.
   * @param result JSON, or null to keep none
   */
  closing(run: OwnedRun, key: ReceiptKey, result: string | null): Statement {
    return this.database.tables.calling('receipt_end_1', [
      ...receiptFence(run),
      key.entity,
      key.effect,
      resultToKeep(result),
    ]);
  }

  /** Sends `closing` alone. @returns false when the run is no longer ours: the transaction must be rolled back */
  async close(manager: EntityManager, run: OwnedRun, key: ReceiptKey, result: string | null): Promise<boolean> {
    try {
      await callAlone(manager, this.closing(run, key, result));
      return true;
    } catch (error) {
      if (isRefusedClose(error)) return false;
      throw error;
    }
  }

  /** Keeps what the effect returned; nothing to do for null. */
  keeping({ jobName, fireTime }: RunKey, { entity, effect }: ReceiptKey, result: string | null): Statement[] {
    return result === null
      ? []
      : [
          this.database.tables.calling('receipt_keep_1', [
            jobName,
            fireTime.toISOString(),
            entity,
            effect,
            resultToKeep(result),
          ]),
        ];
  }
}

/** A receipt of a batch that is to be written. */
export interface BatchEntry {
  readonly entity: string;
  readonly idempotencyKey: string;
}

/** Many receipts of one effect in one statement. */
export class ReceiptBatchStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Writes those that are not there, if the run is ours. In one order everywhere, so that batches that meet wait for
   * each other and never in a circle.
   */
  opening(run: OwnedRun, effect: string, entries: readonly BatchEntry[]): Statement {
    const [entities, keys] = [entries.map(({ entity }) => entity), entries.map(({ idempotencyKey }) => idempotencyKey)];
    return this.database.tables.calling('receipt_begin_all_1', [...receiptFence(run), effect, entities, keys]);
  }

  /** The entities whose receipts `opening` wrote; null when the run is not ours. */
  openedOf(rows: unknown[]): Set<string> | null {
    const begun = (rows as { begun: string | null }[]).map((row) => row.begun);
    return begun.length > 0 ? new Set(begun.filter((entity) => entity !== null)) : null;
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
}

/** What opening one answers: with the occurrence's attempt, null where it has no row. */
export interface OccurrenceOpened extends ReceiptRow {
  readonly of_attempt: string | null;
}

/** How long a transaction without a lease may do nothing, in milliseconds, before the server ends it. */
const MOST_IDLE_MS = 60_000;

/** A receipt that belongs to an occurrence, and to no attempt at it: no lease, so no fence. */
export class OccurrenceReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Writes the receipt if the occurrence has a row and the receipt is not there.
   * @param own in a transaction of the receipt's own
   */
  opening(
    { jobName, fireTime }: RunKey,
    { entity, effect }: ReceiptKey,
    writer: string,
    idempotencyKey: string,
    own: boolean,
  ): Statement {
    const values = [jobName, fireTime.toISOString(), writer, entity, effect, idempotencyKey, String(own), MOST_IDLE_MS];
    return this.database.tables.calling('receipt_begin_for_occurrence_1', values);
  }
}

/**
 * The statements of a receipt in a transaction of the application's that is repeatable read or serializable. Its
 * snapshot shows the lease as it was when the transaction began, so the run is held first, and then looked at from
 * outside: nobody reaps a run that is held, and what the look finds holds until the transaction ends.
 */
export class StrictReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** Holds the run in whatever state it is. See `isHeld`. */
  holding(run: OwnedRun): Statement {
    return this.database.tables.calling('receipt_hold_1', receiptFence(run));
  }

  /** Reads the rows of `holding`: false where the run does not even look like ours. */
  isHeld(rows: unknown[]): boolean {
    return (rows as [{ receipt_hold_1: string }])[0].receipt_hold_1 === 'held';
  }

  /** True when the run, as it is now, is ours. */
  async isOurs(run: OwnedRun): Promise<boolean> {
    const [row] = await this.database.call<{ receipt_is_ours_1: boolean }>('receipt_is_ours_1', receiptFence(run));
    return row!.receipt_is_ours_1;
  }

  /** Writes the receipt of a run that is held, and has been found ours. */
  writing(run: OwnedRun, key: ReceiptKey, idempotencyKey: string): Statement {
    return this.database.tables.calling('receipt_write_1', [...fenceOf(run), key.entity, key.effect, idempotencyKey]);
  }
}

/** What idempotency keys are made with: drawn once for these tables, the same for every replica and version. */
export class ReceiptSecretStore {
  constructor(private readonly database: SchedulerDatabase) {}

  async read(): Promise<string> {
    return (await this.find()) ?? (await this.draw()) ?? (await this.find())!;
  }

  private async find(): Promise<string | undefined> {
    const [row] = await queryOn(this.database.coordination)<{ secret: string }>(
      `select secret from ${this.database.tables.receiptSecret}`,
    );
    return row?.secret;
  }

  /** The migration draws one; tables that were copied without their rows have none. */
  private async draw(): Promise<string | undefined> {
    const [row] = await queryOn(this.database.coordination)<{ secret: string }>(
      `insert into ${this.database.tables.receiptSecret} default values
       on conflict do nothing
       returning secret`,
    );
    return row?.secret;
  }
}
