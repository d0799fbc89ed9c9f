import type { RunKey } from '../../domain/runs/run.js';
import type { ReceiptKey } from './receipt.store.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import type { Statement } from '../connection/statement.js';

/** What opening one answers: the occurrence's attempt, null where it has no row. */
export interface OccurrenceOpened {
  readonly attempt: number | null;
  readonly opened: boolean;
}

/** How long a transaction without a lease may do nothing, in milliseconds, before the server ends it. */
const MOST_IDLE_MS = 60_000;

/** The statements of a receipt that belongs to an occurrence, and to no attempt at it: no lease, so no fence. */
export class OccurrenceReceiptStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** In a transaction of the receipt's own: no reaper ends it, so that the server must when its process is frozen. */
  bounding(): Statement {
    return { text: `select set_config('idle_in_transaction_session_timeout', $1, true)`, values: [String(MOST_IDLE_MS)] };
  }

  /** Writes the receipt if the occurrence has a row and the receipt is not there. */
  opening(run: RunKey, key: ReceiptKey, writer: string, idempotencyKey: string): Statement {
    const { jobRuns, receipts } = this.database.tables;
    const text = `
      with known as (
        select attempt
        from   ${jobRuns}
        where  job_name = $1
        and    fire_time = $2
      ),
      opened as (
        insert into ${receipts} (job_name, fire_time, attempt, claimed_by, entity, effect, idempotency_key)
        select $1, $2, known.attempt, $3, $4, $5, $6
        from   known
        on     conflict (job_name, fire_time, entity, effect) do nothing
        returning 1
      )
      select (select attempt from known) as attempt,
             exists (select from opened) as opened`;
    return { text, values: [run.jobName, run.fireTime.toISOString(), writer, key.entity, key.effect, idempotencyKey] };
  }
}
