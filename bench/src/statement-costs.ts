/** What a replica asks in the course of an ordinary day. */
export type StatementKind = 'claim' | 'look' | 'end' | 'presence' | 'outlook' | 'watermark' | 'unregistered';

/** Milliseconds, from question to answer on a connection that is free. */
export interface StatementCost {
  /** For one occurrence or job. */
  readonly baseMs: number;
  /** For each further one that it names. */
  readonly eachMs: number;
}

export interface StatementCosts extends Readonly<Record<StatementKind, StatementCost>> {
  /** Watermarks that move; for most replicas another has moved them. */
  readonly advance: StatementCost;
}
