import type { EntityManager } from 'typeorm';
import type { OwnedRun, RunKey } from '../domain/run.js';
import { fenceOf } from './fence.js';
import { queryOn } from './query.js';
import { orRefused } from './refused-close.js';
import { receiptLockKey } from './receipt-lock.js';
import type { SchedulerDatabase } from './scheduler-database.js';
import type { Statement } from './statement.js';

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
  /** The run is no longer ours. */
  | { readonly kind: 'refused' };

/** What opening one answers. */
interface Opened {
  readonly owned: boolean;
  readonly opened: boolean;
}

/** The statements of a receipt, in the transaction that also holds the effect. */
export class ReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Writes the receipt if the run is ours and it is not there; waits for a transaction that is about to write the same.
   * The transaction can be told by its lock, taken before it may have to wait: whoever takes the run over ends it.
   */
  async open(manager: EntityManager, run: OwnedRun, key: ReceiptKey, idempotencyKey: string): Promise<ReceiptAnswer> {
    const query = queryOn(manager);
    const [opening, kept] = this.opening(run, key, idempotencyKey);
    const opened = await query<Opened>(opening.text, [...opening.values]);
    return this.answerOf([opened, opened[0]!.owned && !opened[0]!.opened ? await query(kept.text, [...kept.values]) : []]);
  }

  /** What `open` asks, for whoever sends it together with something else: the second looks at what the first left as it was. */
  opening(run: OwnedRun, key: ReceiptKey, idempotencyKey: string): [Statement, Statement] {
    const { jobRuns, receipts, schema } = this.database.tables;
    const opened = {
      text: `
       with owned as materialized (
         select pg_advisory_xact_lock_shared(${receiptLockKey(schema, 'job_name', 'fire_time', 'attempt')})
         from   ${jobRuns}
         where  job_name = $1
         and    fire_time = $2
         and    status = 'running'
         and    attempt = $3
         and    claimed_by = $4
         and    lease_until > clock_timestamp()
       ),
       opened as (
         insert into ${receipts} (job_name, fire_time, attempt, claimed_by, entity, effect, idempotency_key)
         select $1, $2, $3, $4, $5, $6, $7
         from   owned
         on conflict (job_name, fire_time, entity, effect) do nothing
         returning 1
       )
       select exists (select from owned) as owned,
              exists (select from opened) as opened`,
      values: [...fenceOf(run), key.entity, key.effect, idempotencyKey],
    };
    return [opened, this.kept(run, key)];
  }

  /** Reads the rows of what `opening` asks. */
  answerOf([opened, kept]: unknown[][]): ReceiptAnswer {
    const [row] = opened as Opened[];
    if (row!.opened) return { kind: 'opened' };
    if (!row!.owned) return { kind: 'refused' };
    const [there] = kept as { kept: boolean; result: unknown }[];
    return { kind: 'there', result: there?.kept ? there.result : undefined };
  }

  /** Asks for the result that a receipt keeps. */
  kept(run: RunKey, key: ReceiptKey): Statement {
    return {
      text: `
       select result is not null as kept, result
       from   ${this.database.tables.receipts}
       where  job_name = $1
       and    fire_time = $2
       and    entity = $3
       and    effect = $4`,
      values: [run.jobName, run.fireTime.toISOString(), key.entity, key.effect],
    };
  }

  /**
   * The last statement before the commit: keeps the result, and holds the run so that nobody reaps it until the
   * transaction ends. The lock lets heartbeats pass: were it stronger, a process that is busy with something else before
   * its commit would hold up the renewal of all its leases.
   * @param result JSON, or null to keep none
   * @returns false when the run is no longer ours: the transaction must be rolled back
   */
  async close(manager: EntityManager, run: OwnedRun, key: ReceiptKey, result: string | null): Promise<boolean> {
    const query = queryOn(manager);
    for (const { text, values } of this.keeping(run, key, result)) await query(text, [...values]);
    const { text, values } = this.holding(run);
    return (await query(text, [...values])).length === 1;
  }

  /** What `close` asks, for whoever sends it together with the commit: it fails when the run is no longer ours, see `isRefusedClose`. */
  closing(run: OwnedRun, key: ReceiptKey, result: string | null): Statement[] {
    return [...this.keeping(run, key, result), orRefused(this.holding(run))];
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

  /** One row while the run is ours, which then stays so until the transaction ends. */
  holding(run: OwnedRun): Statement {
    const text = `
      select
      from   ${this.database.tables.jobRuns}
      where  job_name = $1
      and    fire_time = $2
      and    status = 'running'
      and    attempt = $3
      and    claimed_by = $4
      and    lease_until > clock_timestamp()
      for    key share`;
    return { text, values: fenceOf(run) };
  }
}
