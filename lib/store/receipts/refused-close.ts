import { postgresError } from '../connection/sql-state.js';
import type { Statement } from '../connection/statement.js';

const REFUSED = 'nestjs-distributed-cron: the run is no longer ours';

/**
 * A statement that fails where the condition does not hold: what follows it in the same message, the commit, is then not
 * done. Its text is no number, and is read as one only then.
 */
export function orRefused(condition: string, values: Statement['values']): Statement {
  return { text: `select (case when ${condition} then '1' else '${REFUSED}' end)::integer as ours`, values };
}

/** True for the failure of a statement made by `orRefused`. */
export function isRefusedClose(error: unknown): boolean {
  const { code, message } = postgresError(error);
  return code === '22P02' && message?.includes(REFUSED) === true;
}
