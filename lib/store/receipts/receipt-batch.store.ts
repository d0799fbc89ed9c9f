import type { OwnedRun, RunKey } from '../../domain/runs/run.js';
import { fenceOf } from '../runs/fence.js';
import { queryOn, type Queryable } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import type { Statement } from '../connection/statement.js';

/** A receipt of a batch that is to be written. */
export interface BatchEntry {
  readonly entity: string;
  readonly idempotencyKey: string;
}

/** Many receipts of one effect in one statement. */
export class ReceiptBatchStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Writes those that are not there, if the run is ours. In one order everywhere, so that batches that meet wait for each
   * other and never in a circle.
   */
  opening(run: OwnedRun, effect: string, entries: readonly BatchEntry[]): Statement {
    const { receipts, receiptMayBegin } = this.database.tables;
    const text = `
      with owned as materialized (
        select
        where  ${receiptMayBegin}($1, $2, $3, $4, $8)
      ),
      opened as (
        insert into ${receipts} (job_name, fire_time, attempt, claimed_by, entity, effect, idempotency_key)
        select $1, $2::timestamptz, $3::integer, $4, wanted.entity, $5, wanted.idempotency_key
        from   owned
        cross  join unnest($6::text[], $7::text[]) as wanted (entity, idempotency_key)
        order  by wanted.entity collate "C"
        on     conflict (job_name, fire_time, entity, effect) do nothing
        returning entity
      )
      select entity from opened
      union  all
      select null from owned`;
    return { text, values: [...fenceOf(run), effect, entries.map(({ entity }) => entity), entries.map(({ idempotencyKey }) => idempotencyKey), run.page ?? null] };
  }

  /** The entities whose receipts `opening` wrote; null when the run is not ours. */
  openedOf(rows: unknown[]): Set<string> | null {
    const entities = (rows as { entity: string | null }[]).map(({ entity }) => entity);
    return entities.includes(null) ? new Set(entities.filter((entity) => entity !== null)) : null;
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
