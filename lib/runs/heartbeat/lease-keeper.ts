import type { Client } from 'pg';
import type { ClientOptions } from '../../database/query.js';
import { monotonicNow } from '../../database/clock.js';
import { Loop } from '../../database/loop.js';
import { OwnClient } from '../../database/clients.js';
import { retryDelay } from '../../database/retry.js';
import type { Tables } from '../../database/tables.js';
import { LONGEST_TIMER_MS } from '../../options/duration.js';
import {
  type AttemptToForget,
  Failures,
  type FromThread,
  type Renewal,
  type WatchedRun,
} from './heartbeat.messages.js';
import type { NotificationListener } from './notification-listener.js';

/** What became of a lease that was to be renewed. */
export type RenewalAnswer =
  | { readonly kind: 'renewed'; readonly leaseUntil: number }
  /** The row is held by somebody: ours still, and not renewed. To be tried again. */
  | { readonly kind: 'held' }
  /** The lease ran out, or the run is another attempt's. */
  | { readonly kind: 'lost' };

/**
 * Renews all leases of an instance in one statement. A lease that ran out is never revived, and one that another
 * attempt took is not touched. A row that somebody else holds is passed over, so that it does not hold up the others.
 * @param patienceMs how long to wait for the answer
 * @returns what became of each, by its id
 */
export async function renewLeases(
  client: Client,
  tables: Tables,
  leases: readonly Pick<WatchedRun, 'id' | 'jobName' | 'fireTime' | 'attempt' | 'instanceId' | 'leaseMs'>[],
  patienceMs: number,
): Promise<Map<string, RenewalAnswer>> {
  const text = `select id, renewed_until from ${tables.qualify('job_run_renew_1')}($1, $2, $3, $4, $5, $6)`;
  const columns = ['id', 'jobName', 'fireTime', 'attempt', 'instanceId', 'leaseMs'] as const;
  const values = columns.map((name) => leases.map((lease) => lease[name]));
  const query = { text, values, query_timeout: patienceMs };
  const { rows } = await client.query<{ id: string; renewed_until: Date | null }>(query);
  const ours = new Map(rows.map((row) => [row.id, row.renewed_until]));
  return new Map(leases.map(({ id }) => [id, answerOf(ours.get(id))]));
}

function answerOf(until: Date | null | undefined): RenewalAnswer {
  if (until === undefined) return { kind: 'lost' };
  return until === null ? { kind: 'held' } : { kind: 'renewed', leaseUntil: until.getTime() };
}

/**
 * Writes since when the event loop of an instance stands still, or that it moves again.
 * @param forMs how long it has stood still; null when it does not
 * @param patienceMs how long to wait for the answer
 */
export async function writeBlocked(
  client: Client,
  { jobInstances }: Tables,
  instanceId: string,
  forMs: number | null,
  patienceMs: number,
): Promise<void> {
  const text = `
    update ${jobInstances}
    set    blocked_since = clock_timestamp() - $2 * interval '1 millisecond'
    where  id = $1`;
  const query = { text, values: [instanceId, forMs], query_timeout: patienceMs };
  await client.query(query);
}

/** Longest wait before another try when a beat failed: several fit into the shortest lease. */
const MAX_RETRY_MS = 500;
const LEAST_PATIENCE_MS = 300;
/** As for a lease of a minute: also a note is not waited for much longer. */
const MOST_PATIENCE_MS = 60_000;
/** How soon a lease is tried again whose row somebody held. */
const HELD_RETRY_MS = 100;
/** How soon a note is tried again that could not be written. */
const NOTE_RETRY_MS = 1_000;
/** For the two statements with which it begins to listen. */
const LISTEN_PATIENCE_MS = 2_000;
/** All instances lose theirs in the same moment. */
const RECONNECT_WITHIN_MS = 500;

/** What is to be written about the instance itself. */
interface Note {
  readonly instanceId: string;
  /** Since when its event loop stands still, by the monotonic clock in milliseconds; null: it moves. */
  readonly blockedSince: number | null;
}

/**
 * Keeps the leases of the watched runs: one connection, one statement a beat, and nothing at all while nothing is
 * watched, though what other instances say is heard on it. Runs in the heartbeat's thread.
 */
export class LeaseKeeper {
  private readonly watched = new Map<string, WatchedRun>();
  private client: Client | null = null;
  /** How often in a row it could not listen. */
  private deaf = 0;
  private note: Note | null = null;
  private passedOver = false;
  private distrusted = false;
  private readonly loop = new Loop(() => this.beat(), {
    maxSleepMs: LONGEST_TIMER_MS,
    maxRetryMs: MAX_RETRY_MS,
    onFailure: (error) => {
      this.disconnect();
      this.failed(error);
    },
  });

  constructor(
    private readonly config: ClientOptions,
    private readonly tables: Tables,
    private readonly tell: (message: FromThread) => void,
    private readonly ear: NotificationListener | null = null,
    private readonly failures = new Failures(tell),
  ) {
    this.loop.start(LONGEST_TIMER_MS);
  }

  /** Before there is a lease to keep, so that settings which don't work here are known at once. */
  async connect(): Promise<void> {
    await this.connected(Number(this.config.connectionTimeoutMillis));
    // What could not be listened to is tried again by the loop.
    this.loop.wakeWithin(await this.listenNow());
  }

  /** Connects, too, as long as it takes. */
  listen(): void {
    this.loop.wake();
  }

  /** On another connection from now on: this one may lead to what was the primary before. */
  reconnect(): void {
    this.distrusted = true;
    this.loop.wake();
  }

  watch(run: WatchedRun): void {
    this.watched.set(run.id, run);
    this.loop.wakeWithin(run.renewEveryMs);
  }

  forget({ id, attempt }: AttemptToForget): void {
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
    if (this.distrusted) this.disconnect();
    const leases = this.renewable();
    this.passedOver = false;
    if (leases.length > 0) await this.renew(leases);
    if (this.note) await this.write(this.note);
    const another = this.note ? NOTE_RETRY_MS : await this.listenNow();
    return Math.min(another, this.next);
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

  /**
   * Only for wake-ups: what becomes of it never holds up a lease. @returns milliseconds to the next try, if there has
   * to be one
   */
  private async listenNow(): Promise<number> {
    if (!this.ear || this.ear.knows(this.client)) return LONGEST_TIMER_MS;
    try {
      const isHeard = await this.ear.listenOn(await this.connected(this.patience()), LISTEN_PATIENCE_MS);
      this.tell({ type: 'listening', isHeard });
      this.deaf = 0;
      this.recovered();
      return LONGEST_TIMER_MS;
    } catch (error) {
      this.disconnect();
      this.failed(error);
      return retryDelay(++this.deaf);
    }
  }

  /** Milliseconds to the next beat. */
  private get next(): number {
    return this.passedOver ? Math.min(HELD_RETRY_MS, this.interval()) : this.interval();
  }

  private failed(error: unknown): void {
    this.failures.failed('leases', error);
  }

  /** Only the database's answer says so: a beat without leases asks nothing. */
  private recovered(): void {
    this.failures.recovered('leases');
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

  /**
   * An answer that takes longer than a third of the shortest lease is not waited for: a new connection may be faster.
   */
  private patience(): number {
    return Math.max(
      LEAST_PATIENCE_MS,
      Math.min(MOST_PATIENCE_MS, ...[...this.watched.values()].map(({ leaseMs }) => leaseMs)) / 3,
    );
  }

  private async connected(patience: number): Promise<Client> {
    if (this.client) return this.client;
    const client = new OwnClient({ ...this.config, connectionTimeoutMillis: patience });
    client.on('error', () => {
      if (this.client !== client) return;
      this.disconnect();
      if (this.ear) this.loop.wakeWithin(Math.random() * RECONNECT_WITHIN_MS);
    });
    await client.connect();
    this.client = client;
    return client;
  }

  private disconnect(): void {
    const client = this.client;
    if (client && this.ear?.knows(client)) this.tell({ type: 'listening', isHeard: false });
    this.client = null;
    this.distrusted = false;
    client?.end().catch(() => {});
  }
}
