import type { DistributedCronOptions, DistributedSchedulerOptions } from 'nestjs-distributed-cron';

/** What a test tells a replica to be. Plain values, because they cross to another process. */
export interface ReplicaSettings {
  /** Written into `effects`, so that a test sees who did what. */
  readonly name: string;
  readonly url: string;
  readonly scheduler: Omit<DistributedSchedulerOptions, 'connection' | 'dataSource'>;
  readonly jobs: readonly ReplicaJob[];
  /** The process id the replica believes to have: in containers, all have the same. */
  readonly believedPid?: number;
}

export interface ReplicaJob extends Omit<DistributedCronOptions, 'name'> {
  readonly name: string;
  readonly cron: string;
  /** What its handler does, one after the other. */
  readonly steps: readonly Step[];
}

/** One thing a handler does. */
export type Step =
  /** Tells the test, and waits until the test opens the gate. */
  | { readonly gate: string }
  /** A row in `effects`: in the transaction of the receipt around it, or in one of its own. */
  | { readonly effect: string }
  /** The steps inside happen in the receipt's transaction; one effect for the entity when there are none. */
  | { readonly receipt: string; readonly inside?: readonly Step[] }
  /** A receipt and an effect for each of so many entities, 100 to a transaction; those from `gateFrom` on stand at the gate "bulk" first. */
  | { readonly bulk: number; readonly gateFrom?: number }
  | { readonly pauseMs: number }
  /** Blocks the event loop. */
  | { readonly blockMs: number }
  | { readonly fail: string }
  /** Goes on when the run's signal is aborted. */
  | { readonly untilAborted: true }
  /**
   * Stops the whole process when so many handlers have come to this step. When it is thawed they all go on in the same
   * turn of the event loop, before any timer can tell them that their leases are over.
   */
  | { readonly freezeTogether: number };
