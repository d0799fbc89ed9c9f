import { postgresError } from './sql-state.js';
import type { Statement } from './statement.js';

const REFUSED = 'nestjs-distributed-cron: the run is no longer ours';

/**
 * A statement that fails where the given one finds no row: what follows it in the same message, the commit, is then not
 * done. Its text is no number, and is read as one only then.
 */
export function orRefused({ text, values }: Statement): Statement {
  return {
    text: `
      with ours as materialized (${text})
      select (case when count(*) = 0 then '${REFUSED}' else '1' end)::integer as ours
      from   ours`,
    values,
  };
}

/** True for the failure of a statement made by `orRefused`. */
export function isRefusedClose(error: unknown): boolean {
  const { code, message } = postgresError(error);
  return code === '22P02' && message?.includes(REFUSED) === true;
}
