import type { DataSource } from 'typeorm';
import { checkpointJson } from '../domain/runs/checkpoint.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { readObject } from './operation-options.js';
import { anything, expected, flag, type Rule } from './option-rules.js';
import type { OptionTable } from './read-options.js';

/** The options of `run.transaction`, as they were read. */
export interface ReadTransaction {
  readonly complete: boolean;
  /** The checkpoint's JSON, of what the work returned; null for none. @throws InvalidCheckpointError */
  readonly checkpoint: ((result: unknown) => string) | null;
  /** Null for the data source that holds receipts. */
  readonly in: DataSource | null;
}

const dataSource: Rule<DataSource> = (given) => {
  const { isInitialized, options } = (typeof given === 'object' && given !== null ? given : {}) as Partial<DataSource>;
  if (isInitialized === undefined || options?.type !== 'postgres') return expected('a DataSource of TypeORM for PostgreSQL', given);
  return isInitialized ? { value: given as DataSource } : { problem: 'the data source is not initialized' };
};

const OPTIONS = {
  complete: { rule: flag },
  checkpoint: { rule: anything },
  in: { rule: dataSource },
} as const satisfies OptionTable;

/**
 * A checkpoint that is undefined is refused where it is named: whoever names one counts on it.
 * @param what for people
 * @throws InvalidOptionsError with every problem, InvalidCheckpointError
 */
export function readTransactionOptions(given: unknown, what: string): ReadTransaction {
  const { values, problems } = readObject(given, OPTIONS);
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${what}: ${problem}`));
  const { complete = false, checkpoint, in: source = null } = values;
  if (given === undefined || !('checkpoint' in (given as object))) return { complete, checkpoint: null, in: source };
  if (typeof checkpoint === 'function') return { complete, checkpoint: (result) => checkpointJson(checkpoint(result)), in: source };
  const json = checkpointJson(checkpoint);
  return { complete, checkpoint: () => json, in: source };
}
