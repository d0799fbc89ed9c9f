import type { Query } from '../connection/query.js';
import type { Tables } from '../tables.js';

/** What an operator does, to be kept. */
export interface OperatorAction {
  /** The verb: `pause`, `replay`, … */
  readonly action: string;
  readonly jobName?: string | null;
  readonly fireTime?: Date | null;
  /** Who. */
  readonly by: string;
  /** Why. */
  readonly reason?: string | null;
  readonly details?: Readonly<Record<string, unknown>> | null;
}

/** Who it was, where that need not be said. */
export const NOBODY_NAMED = 'unknown';

/** Keeps what an operator does, in the transaction in which it is done. */
export async function recordAction(query: Query, tables: Tables, { action, jobName, fireTime, by, reason, details }: OperatorAction): Promise<void> {
  await query(
    `select ${tables.qualify('job_action_record_1')}($1, $2, $3, $4, $5, $6)`,
    [action, jobName ?? null, fireTime?.toISOString() ?? null, by, reason ?? null, details ? JSON.stringify(details) : null],
  );
}
