import type { DistributedCronOptions, DistributedSchedulerOptions } from 'nestjs-distributed-cron';

/** What a test tells a replica to be. Plain values, because they cross to another process. */
export interface ReplicaSettings {
  /** Written into `effects`, so that a test sees who did what. */
  readonly name: string;
  readonly url: string;
  readonly scheduler: Omit<DistributedSchedulerOptions, 'connection' | 'dataSource'>;
  readonly jobs: readonly ReplicaJob[];
  /** Everything is loaded, and the application starts when the test says so. */
  readonly standsBy?: boolean;
  /** Handlers of jobs that are made at run time: they do nothing. */
  readonly runTimeHandlers?: readonly string[];
  /** The process id the replica believes to have: in containers, all have the same. */
  readonly believedPid?: number;
  /** Where its mails go, on loopback. */
  readonly smtpPort?: number;
  readonly strike?: Strike;
}

/** A point between two things that a process does for a run. */
export type Boundary =
  | 'before the claim'
  | 'after the claim'
  | 'before the effect'
  | 'inside the effect'
  | 'before its close'
  | 'before its commit'
  | 'after its commit'
  | 'before the mail'
  | 'after the mail'
  | 'before the step’s commit'
  | 'after the step’s commit'
  | 'before the completion'
  | 'after the completion'
  | 'before the completing commit'
  | 'after the completing commit';

/** When the process ends or stops itself: when a run of each of these jobs stands at its boundary. */
export interface Strike {
  readonly signal: 'SIGKILL' | 'SIGSTOP';
  /** By the name of the job; `entity` says at which of its entities. */
  readonly at: Readonly<Record<string, { readonly boundary: Boundary; readonly entity?: string }>>;
}

export interface ReplicaJob extends Omit<DistributedCronOptions, 'name'> {
  readonly name: string;
  readonly cron: string;
  /** What its handler does, one after the other. */
  readonly steps: readonly Step[];
  /** Its pages, by id, and what their handler does: its own steps come first, and then it publishes them. */
  readonly pages?: Readonly<Record<string, readonly Step[]>>;
  /** Pages whose end stands at the gate that is named as they are, before or after it is written. */
  readonly pageEnds?: Readonly<Record<string, 'before' | 'after'>>;
}

/** One thing a handler does. */
export type Step =
  /** Tells the test, and waits until the test opens the gate. */
  | { readonly gate: string }
  /** A row in `effects`: in the transaction of the receipt around it, or in one of its own. */
  | { readonly effect: string }
  /** The steps inside happen in the receipt's transaction; one effect for the entity when there are none. */
  | { readonly receipt: string; readonly inside?: readonly Step[] }
  /**
   * A request to `to` under the effect's idempotency key, through `onceExternal`; the steps `before` and `after` it
   * happen inside the call.
   */
  | {
      readonly call: string;
      readonly to: string;
      readonly inDoubt: 'park' | 'resend';
      readonly before?: readonly Step[];
      readonly after?: readonly Step[];
    }
  /** A mail to the entity, outside the database. */
  | { readonly mail: string }
  /** An effect and the checkpoint that says so in one transaction, without a receipt. */
  | { readonly page: string }
  /** An effect and the run’s completion in one transaction. */
  | { readonly finish: string }
  /**
   * A receipt and an effect for each of so many entities, 100 to a transaction; those from `gateFrom` on stand at the
   * gate "bulk" first.
   */
  | { readonly bulk: number; readonly gateFrom?: number }
  /** A receipt and an effect in a transaction of the application's own pool. */
  | { readonly receiptInOwn: string }
  /** Receipts and effects for so many entities, one by one. */
  | { readonly each: number }
  /** Keeps a checkpoint. */
  | { readonly save: string }
  | { readonly complete: true }
  | { readonly pauseMs: number }
  /** Blocks the event loop. */
  | { readonly blockMs: number }
  | { readonly fail: string }
  /** Goes on when the run's signal is aborted. */
  | { readonly untilAborted: true }
  /** Hands the run over, with this reason, and goes on. */
  | { readonly release: string }
  /**
   * Stops the whole process when so many handlers have come to this step. When it is thawed they all go on in the same
   * turn of the event loop, before any timer can tell them that their leases are over.
   */
  | { readonly freezeTogether: number };
