/** What a replica asks in the course of an ordinary day. */
export type StatementKind = 'claim' | 'look' | 'end' | 'presence' | 'outlook' | 'watermark' | 'unregistered';

/** Milliseconds, from question to answer on a connection that is free. */
export interface StatementCost {
  readonly baseMs: number;
  /** For each occurrence or job that it names. */
  readonly eachMs: number;
}

export type StatementCosts = Readonly<Record<StatementKind, StatementCost>>;
