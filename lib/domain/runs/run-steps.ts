import type { DataSource, EntityManager } from 'typeorm';

/** What an attempt leaves for the next one of the same occurrence: where to resume. One JSON value, kept with the run. */
export interface RunCheckpoint {
  /**
   * What was saved last, in this attempt or an earlier one; undefined when nothing was. It is a copy: changing it changes
   * nothing. A `Date` that was saved comes back as text.
   * @throws AfterRunError, LeaseLostError
   */
  get<Saved = unknown>(): Promise<Saved | undefined>;
  /**
   * Keeps the value as it is at the call. Of several calls that are not awaited the last one wins. At most 1 MiB of JSON.
   * @throws InvalidCheckpointError when the value is no JSON, or too large
   * @throws AfterRunError, LeaseLostError; nothing was saved
   */
  save(value: unknown): Promise<void>;
  /** Forgets what was saved. @throws AfterRunError, LeaseLostError */
  clear(): Promise<void>;
}

/** What commits with the writes of `run.transaction`. */
export interface RunTransactionOptions<Result = unknown> {
  /** The run's completion: it is done when the transaction has committed, and the handler may return. @default false */
  readonly complete?: boolean;
  /** A checkpoint, or a function that makes it of what the work returned. @default none */
  readonly checkpoint?: object | string | number | boolean | null | ((result: Result) => unknown);
  /** A data source of the application's, on the scheduler's database. @default the one that holds receipts */
  readonly in?: DataSource;
}

/** The work of a run's transaction. What it writes through the manager commits, or nothing does. */
export type TransactionWork<Result> = (manager: EntityManager) => Promise<Result> | Result;

/** What a `CronRun` does with its row. */
export interface RunSteps {
  readonly checkpoint: RunCheckpoint;
  transaction<Result>(work: TransactionWork<Result>, options?: RunTransactionOptions<Result>): Promise<Result>;
  complete(): Promise<void>;
}
