import type { Asked } from './simulated-database.js';
import type { StatementCosts, StatementKind } from './statement-costs.js';

/** What is simulated. */
export interface SimulationPlan {
  readonly replicas: number;
  readonly jobs: number;
  /** Of each job. */
  readonly expression: string;
  /** Until everybody knows everybody; nothing is counted before. */
  readonly warmUpSeconds: number;
  readonly seconds: number;
  readonly cores: number;
  readonly roundTripMs: number;
  readonly handlerMs: { readonly from: number; readonly to: number };
  readonly costs: StatementCosts;
}

/** What came of it. */
export interface SimulationResult {
  readonly runs: number;
  readonly asked: Partial<Record<StatementKind, Asked>>;
  /** Of all runs, that of the busiest replica, 0 to 1. */
  readonly most: number;
  /** Pairs of a replica and an instant of which it won something: so many claims had to be. */
  readonly claimsNeeded: number;
  /**
   * Of all replicas, those that asked about occurrences in a second in which they won nothing; of the seconds in which
   * anybody asked, 0 to 1.
   */
  readonly askedInVain: number;
  /** Milliseconds from an occurrence's start until its claim was committed. */
  readonly delayMs: { readonly p50: number; readonly p99: number };
  readonly poolSize: number;
  /** How long it took, in milliseconds. */
  readonly tookMs: number;
}
