interface PostgresError {
  code?: string;
  /** In the server's language: only what this library has put into it is looked for. */
  message?: string;
  /** A word in the server's language, which nothing but a server has. */
  severity?: string;
  /** In which function of the server it was found: in no language. */
  routine?: string;
  constraint?: string;
  table?: string;
}

/** PostgreSQL's own error, however TypeORM wrapped it; empty when it is none. */
export function postgresError(error: unknown): PostgresError {
  if (typeof error !== 'object' || error === null) return {};
  const { driverError } = error as { driverError?: PostgresError };
  return driverError ?? (error as PostgresError);
}

/**
 * A row without a partition violates no named constraint, which tells it from every other failed check. An effect may
 * meet a missing partition of the application's own.
 */
export function isMissingPartition(error: unknown): boolean {
  const { code, constraint, table } = postgresError(error);
  return (
    code === '23514' &&
    constraint === undefined &&
    (table === 'job_runs' || table === 'receipts' || table === 'job_pages')
  );
}

/** True when there is no such table, function or schema: it is not the database of the scheduler's tables. */
export function isMissingTable(error: unknown): boolean {
  const { code } = postgresError(error);
  return code === '42P01' || code === '42883' || code === '3F000';
}

/**
 * With these the server ends the session: it is shut down, or somebody has ended it, or it took too long with a
 * transaction or without.
 */
const LAST_WORDS = ['57P01', '57P02', '57P03', '57P04', '57P05', '25P03', '25P04'];

/** True when the server has ended the session with it. */
export function isLastWord(error: unknown): boolean {
  const { code } = postgresError(error);
  return code !== undefined && (LAST_WORDS.includes(code) || (code.length === 5 && code.startsWith('08')));
}

/**
 * True when the server answered that the statement failed: nothing of it is done. After a broken or silent line nobody
 * knows.
 */
export function isRefusal(error: unknown): boolean {
  const { code, severity } = postgresError(error);
  return severity !== undefined && code !== undefined && !isLastWord(error);
}

/** True when the session takes no writes: it is one of a standby, or of what was a primary before. */
export function isReadOnly(error: unknown): boolean {
  return postgresError(error).code === '25006';
}

/**
 * True when nothing more is to be asked on the connection: its session is over, or takes no writes. A pool would give
 * it out again.
 */
export function isUseless(error: unknown): boolean {
  return isReadOnly(error) || isLastWord(error);
}

/**
 * True when the server refused a value, or the row that would come of it: out of range, malformed, against a
 * constraint, not in its encoding, too large, or what a trigger says. The same again is refused again. A partition that
 * is missing is none of these.
 */
export function isRefusedData(error: unknown): boolean {
  const { code = '' } = postgresError(error);
  return /^(21|22|23|44|54|P0)/.test(code) && !isMissingPartition(error);
}

/** A deadlock or a serialization failure: the transaction did nothing, and may do better next time. */
export function isConflict(error: unknown): boolean {
  const { code } = postgresError(error);
  return code === '40001' || code === '40P01';
}

/**
 * True when the server ended a statement that took, or waited, too long: it was cancelled, or a lock was not to be had.
 */
export function isImpatience(error: unknown): boolean {
  const { code } = postgresError(error);
  return code === '57014' || code === '55P03';
}

/**
 * True for the failure of a statement that was sent with a commit: the run is no longer ours, and nothing was
 * committed. It is raised by `refuse_1`.
 */
export function isRefusedClose(error: unknown): boolean {
  return postgresError(error).code === 'NDC01';
}
