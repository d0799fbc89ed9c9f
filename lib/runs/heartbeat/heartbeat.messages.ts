import type { WakeUp } from '../../database/tables.js';
import type { MessagePort } from 'node:worker_threads';
import type { ClientOptions } from '../../database/query.js';
import { databaseTrouble, type DatabaseTrouble } from '../../errors/database-trouble.js';
import type { LeaseLoss } from '../../errors/run.errors.js';
import { describeError, type StoredError } from '../../errors/stored-error.js';

/** Each of them: after a time in which none was heard. */
export const EVERY_WAKE_UP: readonly WakeUp[] = ['runs', 'jobs', 'told'];

/** @returns null for what is for another instance, and for what this version does not know */
export function readWakeUp(payload: string | undefined, instanceId: string): WakeUp | null {
  if (payload === 'runs' || payload === 'jobs') return payload;
  return payload === `told ${instanceId}` ? 'told' : null;
}

/** What the heartbeat's thread starts with. */
export interface HeartbeatSetup {
  readonly client: ClientOptions;
  readonly schema: string;
  readonly port: MessagePort;
  readonly watch: MainLoopSetup;
  /** See `LivenessProof`; none without `fastFailover`. */
  readonly lifeline?: SharedArrayBuffer | null;
  /**
   * It takes the place of a thread that has ended: nobody waits for its connection, and something may have been said
   * meanwhile.
   */
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
export interface WatchedRun {
  readonly id: string;
  readonly jobName: string;
  /** ISO 8601. */
  readonly fireTime: string;
  readonly attempt: number;
  readonly instanceId: string;
  readonly leaseMs: number;
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

/** What the connections of the heartbeat's thread fail with, told as of one: mostly they fail together. */
export class Failures {
  /** What each of those that fail has failed with last. */
  private readonly failing = new Map<string, string>();

  constructor(private readonly tell: (message: FromThread) => void) {}

  /**
   * Told once, and again when it is something else: a password may have run out while the server was away.
   * @param what the connection is for
   */
  failed(what: string, error: unknown): void {
    const trouble = databaseTrouble(error);
    const kind = trouble?.kind ?? 'something else';
    if (![...this.failing.values()].includes(kind)) this.tell({ type: 'failed', error: describeError(error), trouble });
    this.failing.set(what, kind);
  }

  /** Told when all work again. */
  recovered(what: string): void {
    if (this.failing.delete(what) && this.failing.size === 0) this.tell({ type: 'recovered' });
  }
}
