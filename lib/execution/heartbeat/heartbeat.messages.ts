import type { MessagePort } from 'node:worker_threads';
import type { ClientOptions } from '../../store/connection/client-config.js';
import type { WakeUp } from '../../domain/wake-up.js';
import type { LeaseLoss } from '../../errors/lease-lost.error.js';
import type { LeaseToRenew } from '../../store/runs/renew-leases.js';
import type { DatabaseTrouble } from '../../domain/database-trouble.js';
import type { StoredError } from '../../domain/runs/stored-error.js';

/** What the heartbeat's thread starts with. */
export interface HeartbeatSetup {
  readonly client: ClientOptions;
  readonly schema: string;
  readonly port: MessagePort;
  readonly watch: MainLoopSetup;
  /** See `LifelineProof`; none without `fastFailover`. */
  readonly lifeline?: SharedArrayBuffer | null;
  /** It takes the place of a thread that has ended: nobody waits for its connection, and something may have been said meanwhile. */
  readonly replaces: boolean;
}

/** How the thread watches the main thread's event loop. */
export interface MainLoopSetup {
  /** See `Pulse`. */
  readonly pulse: SharedArrayBuffer;
  /** How long the loop may stand still before the thread says so, in milliseconds. */
  readonly blockedAfterMs: number;
  /** Whose `blocked_since` it writes. */
  readonly instanceId: string;
  /** Whether it writes to stderr. */
  readonly logging: boolean;
}

/** A run whose lease the thread keeps. Plain values, because they cross to a thread. */
export interface WatchedRun extends LeaseToRenew {
  readonly renewEveryMs: number;
  /** By the monotonic clock, milliseconds: all threads of a process share it. */
  readonly leaseDeadline: number;
  /** From then on its lease is renewed no more. By the monotonic clock, milliseconds. */
  readonly renewUntil: number;
}

/** An attempt whose lease is kept no more. */
export type AttemptToForget = Pick<WatchedRun, 'id' | 'attempt'>;

/** What the process tells its heartbeat thread. */
export type ToThread =
  /** Asks for the first connection, before there is a lease to keep; answered by `connected` or `refused`. */
  | { readonly type: 'connect' }
  | { readonly type: 'watch'; readonly runs: readonly WatchedRun[] }
  | { readonly type: 'forget'; readonly runs: readonly AttemptToForget[] }
  /** The password, where it is made anew for each connection. */
  | { readonly type: 'credentials'; readonly password: string }
  /** A connection elsewhere was found to take no writes: those of the thread may be of the same kind. */
  | { readonly type: 'reconnect' }
  /** Ends the connection and with it the thread. */
  | { readonly type: 'stop' };

/** A lease that was extended; `leaseDeadline` is by the monotonic clock, in milliseconds. */
export interface Renewal {
  readonly id: string;
  readonly attempt: number;
  /** Milliseconds since 1970, by the database's clock. */
  readonly leaseUntil: number;
  readonly leaseDeadline: number;
}

/** What the thread tells its process. */
export type FromThread =
  | { readonly type: 'connected' }
  | { readonly type: 'refused'; readonly error: StoredError; readonly code: string | null }
  /** From now on what other instances say is heard, or not any more. */
  | { readonly type: 'listening'; readonly isHeard: boolean }
  /** Other instances say that there is something to look at. */
  | { readonly type: 'woken'; readonly wakeUps: readonly WakeUp[] }
  | { readonly type: 'renewed'; readonly renewals: readonly Renewal[] }
  | { readonly type: 'lost'; readonly id: string; readonly attempt: number; readonly cause: LeaseLoss }
  /** The main thread's event loop stood still for so long, in milliseconds, and moves again. */
  | { readonly type: 'unblocked'; readonly forMs: number }
  | { readonly type: 'failed'; readonly error: StoredError; readonly trouble: DatabaseTrouble | null }
  | { readonly type: 'recovered' }
  /** The session is not the connection's: nobody would see its end. */
  | { readonly type: 'no lifeline' };
