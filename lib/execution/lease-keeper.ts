import { Client } from 'pg';
import { databaseTrouble } from '../domain/database-trouble.js';
import { LONGEST_TIMER_MS } from '../domain/duration.js';
import { describeError } from '../domain/stored-error.js';
import { Loop } from '../runtime/loop.js';
import { monotonicNow } from '../runtime/monotonic.js';
import { writeBlocked } from '../store/blocked-instance.js';
import { renewLeases, type RenewalAnswer } from '../store/renew-leases.js';
import { OWN_TYPES, type ClientOptions } from '../store/client-config.js';
import type { Tables } from '../store/tables.js';
import type { FromThread, Renewal, WatchedRun } from './heartbeat.messages.js';

/** Longest wait before another try when a beat failed: several fit into the shortest lease. */
const MAX_RETRY_MS = 500;
const LEAST_PATIENCE_MS = 300;
/** As for a lease of a minute: also a note is not waited for much longer. */
const MOST_PATIENCE_MS = 60_000;
/** How soon a lease is tried again whose row somebody held. */
const HELD_RETRY_MS = 100;
/** How soon a note is tried again that could not be written. */
const NOTE_RETRY_MS = 1_000;

/** What is to be written about the instance itself. */
interface Note {
  readonly instanceId: string;
  /** Since when its event loop stands still, by the monotonic clock in milliseconds; null: it moves. */
  readonly blockedSince: number | null;
}

/**
 * Keeps the leases of the watched runs: one connection, one statement a beat, and nothing at all while nothing is
 * watched. Runs in the heartbeat's thread.
 */
export class LeaseKeeper {
  private readonly watched = new Map<string, WatchedRun>();
  private client: Client | null = null;
  private failing = false;
  private note: Note | null = null;
  private passedOver = false;
  private readonly loop = new Loop(() => this.beat(), {
    maxSleepMs: LONGEST_TIMER_MS,
    maxRetryMs: MAX_RETRY_MS,
    onFailure: (error, failures) => {
      this.failing = true;
      this.disconnect();
      if (failures === 1) this.tell({ type: 'failed', error: describeError(error), trouble: databaseTrouble(error) });
    },
  });

  constructor(
    private readonly config: ClientOptions,
    private readonly tables: Tables,
    private readonly tell: (message: FromThread) => void,
  ) {
    this.loop.start(LONGEST_TIMER_MS);
  }

  /** Before there is a lease to keep, so that settings which don't work here are known at once. */
  async connect(): Promise<void> {
    await this.connected(Number(this.config.connectionTimeoutMillis));
  }

  watch(run: WatchedRun): void {
    this.watched.set(run.id, run);
    this.loop.wakeWithin(run.renewEveryMs);
  }

  forget(id: string, attempt: number): void {
    if (this.watched.get(id)?.attempt === attempt) this.watched.delete(id);
  }

  /** Writes it down, for others to see, as soon as the leases are renewed. */
  noteBlocked(instanceId: string, blockedSince: number | null): void {
    this.note = { instanceId, blockedSince };
    this.loop.wake();
  }

  /** The runs whose leases are kept, by their ids. */
  get kept(): string[] {
    return [...this.watched.keys()];
  }

  /** For servers whose passwords last only minutes. */
  changePassword(password: string): void {
    this.config.password = password;
  }

  async stop(): Promise<void> {
    this.watched.clear();
    await this.loop.stop();
    await this.client?.end().catch(() => {});
  }

  /** Renews every lease in hand once. @returns milliseconds to the next beat */
  async beat(): Promise<number> {
    const leases = this.renewable();
    this.passedOver = false;
    if (leases.length > 0) await this.renew(leases);
    if (this.note) await this.write(this.note);
    return this.note ? Math.min(NOTE_RETRY_MS, this.next) : this.next;
  }

  /** What has run too long is renewed no more: its lease runs out, whatever becomes of the main thread. */
  private renewable(): WatchedRun[] {
    const now = monotonicNow();
    for (const [id, { renewUntil }] of this.watched) if (renewUntil <= now) this.watched.delete(id);
    return [...this.watched.values()];
  }

  private async renew(leases: readonly WatchedRun[]): Promise<void> {
    const patience = this.patience();
    const client = await this.connected(patience);
    const sentAt = monotonicNow();
    const answers = await renewLeases(client, this.tables, leases, patience);
    this.recovered();
    const renewals = leases.flatMap((lease) => this.settle(lease, sentAt, answers.get(lease.id)!));
    if (renewals.length > 0) this.tell({ type: 'renewed', renewals });
    this.passedOver = [...answers.values()].some(({ kind }) => kind === 'held');
  }

  /** Only a note: what becomes of it never holds up a lease. */
  private async write(note: Note): Promise<void> {
    const patience = this.patience();
    const forMs = note.blockedSince === null ? null : monotonicNow() - note.blockedSince;
    try {
      await writeBlocked(await this.connected(patience), this.tables, note.instanceId, forMs, patience);
      if (this.note === note) this.note = null;
    } catch {
      this.disconnect();
    }
  }

  /** Milliseconds to the next beat. */
  private get next(): number {
    return this.passedOver ? Math.min(HELD_RETRY_MS, this.interval()) : this.interval();
  }

  /** Only the database's answer says so: a beat without leases asks nothing. */
  private recovered(): void {
    if (this.failing) this.tell({ type: 'recovered' });
    this.failing = false;
  }

  /** A renewal that comes back after the lease has ended here does not revive it: the handler was told to stop. */
  private settle(lease: WatchedRun, sentAt: number, answer: RenewalAnswer): Renewal[] {
    const { id, attempt, leaseMs } = lease;
    if (this.watched.get(id) !== lease) return [];
    const expired = lease.leaseDeadline <= monotonicNow();
    if (answer.kind === 'lost' || expired) {
      this.watched.delete(id);
      this.tell({ type: 'lost', id, attempt, cause: expired ? 'expired' : 'taken over' });
      return [];
    }
    if (answer.kind === 'held') return [];
    const leaseDeadline = sentAt + leaseMs;
    this.watched.set(id, { ...lease, leaseDeadline });
    return [{ id, attempt, leaseUntil: answer.leaseUntil, leaseDeadline }];
  }

  /** The shortest of the watched runs': one statement serves them all. */
  private interval(): number {
    return Math.min(LONGEST_TIMER_MS, ...[...this.watched.values()].map(({ renewEveryMs }) => renewEveryMs));
  }

  /** An answer that takes longer than a third of the shortest lease is not waited for: a new connection may be faster. */
  private patience(): number {
    return Math.max(LEAST_PATIENCE_MS, Math.min(MOST_PATIENCE_MS, ...[...this.watched.values()].map(({ leaseMs }) => leaseMs)) / 3);
  }

  private async connected(patience: number): Promise<Client> {
    if (this.client) return this.client;
    const client = new Client({ ...this.config, types: OWN_TYPES, connectionTimeoutMillis: patience });
    client.on('error', () => {
      if (this.client === client) this.disconnect();
    });
    await client.connect();
    this.client = client;
    return client;
  }

  private disconnect(): void {
    const client = this.client;
    this.client = null;
    client?.end().catch(() => {});
  }
}
