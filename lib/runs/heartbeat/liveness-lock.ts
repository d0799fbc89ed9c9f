import { randomInt } from 'node:crypto';
import type { Client } from 'pg';
import type { ClientOptions } from '../../database/query.js';
import { breakConnection, OwnClient, sessionOf } from '../../database/clients.js';
import { monotonicNow } from '../../database/clock.js';
import { Loop } from '../../database/loop.js';
import type { Tables } from '../../database/tables.js';
import { LONGEST_TIMER_MS } from '../../options/duration.js';
import { type LivenessProof, PROVE_EVERY_MS } from '../liveness-proof.js';
import type { AttemptToForget, Failures, FromThread } from './heartbeat.messages.js';

const RANDOM_BITS = 21;

/** Of a bigint: no other session has had it, and a later one of the same process has a higher one. */
function newKey(): string {
  return ((BigInt(Math.floor(monotonicNow())) << BigInt(RANDOM_BITS)) + BigInt(randomInt(2 ** RANDOM_BITS))).toString();
}

/**
 * Takes the advisory lock that this session holds to its end.
 * @param patienceMs how long to wait for the answer
 * @returns its key
 */
export async function holdLifeline(client: Client, patienceMs: number): Promise<string> {
  const key = newKey();
  const query = { text: 'select pg_try_advisory_lock($1::bigint) as held', values: [key], query_timeout: patienceMs };
  const { rows } = await client.query<{ held: boolean }>(query);
  if (!rows[0]!.held) throw new Error(`Somebody else holds the advisory lock ${key}.`);
  return key;
}

/**
 * Says which lock this instance holds while it lives; null: none, it is judged by its leases. Where its row is gone
 * nothing is said, which comes to the same. A former session that was given up may still say so, once it gets the row:
 * that comes too late.
 */
export async function announceLifeline(
  client: Client,
  { jobInstances }: Tables,
  instanceId: string,
  key: string | null,
  patienceMs: number,
): Promise<void> {
  const text = `
    update ${jobInstances}
    set    lifeline = $2::bigint
    where  id = $1
    and   ($2::bigint is null or lifeline is null or lifeline < $2)`;
  const query = { text, values: [instanceId, key], query_timeout: patienceMs };
  await client.query(query);
}

/** One round trip to a session that is still there. */
export async function proveLifeline(client: Client, patienceMs: number): Promise<void> {
  const query = { text: 'select', query_timeout: patienceMs };
  await client.query(query);
}

/**
 * An answer is not waited for longer than this, in milliseconds: with another connection there is still time to prove
 * it.
 */
const PATIENCE_MS = 400;
/** All instances lose theirs in the same moment. */
const RECONNECT_WITHIN_MS = 100;
/** Where the way to the server is long, a connection takes many round trips. */
const MOST_PATIENCE_MS = 10_000;
/** Its row may be made anew while a run goes on for hours. */
const ANNOUNCE_EVERY_MS = 60_000;
/** A claim is the first proof of its run; one that is over by then needs no other. */
const FIRST_PROOF_AFTER_MS = 100;

/**
 * The connection by which others see that this process lives, in the heartbeat's thread: its session holds a lock, and
 * while a run is in flight the thread proves that it still does. It does nothing else, so that nothing holds a proof
 * up; see `GRACE_MS` for what follows from it.
 */
export class LivenessLock {
  private readonly inFlight = new Set<string>();
  private client: Client | null = null;
  private key: string | null = null;
  /** By the monotonic clock. */
  private announcedAt = -Infinity;
  /** In a row, to connect. */
  private tries = 0;
  /** The session is a pooler's: there is nothing to hold on to. */
  private pooled = false;
  private distrusted = false;
  private readonly loop = new Loop(() => this.prove(), {
    maxSleepMs: LONGEST_TIMER_MS,
    onFailure: (error) => {
      this.disconnect();
      this.failures.failed('lifeline', error);
    },
  });

  constructor(
    private readonly config: ClientOptions,
    private readonly tables: Tables,
    private readonly instanceId: string,
    private readonly proof: LivenessProof,
    private readonly tell: (message: FromThread) => void,
    private readonly failures: Failures,
  ) {
    this.config = { ...config, application_name: 'nestjs-distributed-cron lifeline' };
    this.loop.start(LONGEST_TIMER_MS);
  }

  /** Before anything is claimed, so that settings which don't work here are known at once. */
  async connect(): Promise<void> {
    await this.connected(Number(this.config.connectionTimeoutMillis));
  }

  /** Connects, too, as long as it takes. */
  mend(): void {
    this.loop.wake();
  }

  /** On another connection from now on: this one may lead to what was the primary before. */
  reconnect(): void {
    this.distrusted = true;
    this.loop.wake();
  }

  watch({ id, attempt }: AttemptToForget): void {
    this.inFlight.add(`${id}#${attempt}`);
    if (this.inFlight.size === 1) this.loop.wakeWithin(FIRST_PROOF_AFTER_MS);
  }

  forget({ id, attempt }: AttemptToForget): void {
    this.inFlight.delete(`${id}#${attempt}`);
  }

  changePassword(password: string): void {
    this.config.password = password;
  }

  async stop(): Promise<void> {
    this.inFlight.clear();
    await this.loop.stop();
    const { client } = this;
    this.client = null;
    await client?.end().catch(() => {});
  }

  /** One proof, while there is something to prove. @returns milliseconds to the next */
  async prove(): Promise<number> {
    if (this.pooled) return LONGEST_TIMER_MS;
    if (this.distrusted) this.disconnect();
    const client = await this.connected(Math.min(MOST_PATIENCE_MS, PATIENCE_MS * 2 ** Math.min(this.tries++, 10)));
    this.tries = 0;
    if (!client || this.inFlight.size === 0) {
      this.announcedAt = -Infinity;
      return LONGEST_TIMER_MS;
    }
    const sentAt = monotonicNow();
    if (sentAt - this.announcedAt < ANNOUNCE_EVERY_MS) await proveLifeline(client, PATIENCE_MS);
    else await this.announce(client, PATIENCE_MS);
    this.proof.extend(sentAt);
    return Math.max(0, sentAt + PROVE_EVERY_MS - monotonicNow());
  }

  /** @returns null behind a pooler */
  private async connected(patience: number): Promise<Client | null> {
    if (this.client || this.pooled) return this.client;
    const client = new OwnClient({ ...this.config, connectionTimeoutMillis: patience });
    const gone = () => {
      if (this.client !== client) return;
      this.disconnect();
      this.loop.wakeWithin(Math.random() * RECONNECT_WITHIN_MS);
    };
    client.on('error', gone);
    client.on('end', gone);
    await client.connect();
    try {
      await this.begin(client, patience);
    } catch (error) {
      breakConnection(client);
      throw error;
    }
    this.failures.recovered('lifeline');
    return this.client;
  }

  private async begin(client: Client, patience: number): Promise<void> {
    const { isOwn } = await sessionOf(client, patience);
    const sentAt = monotonicNow();
    this.key = isOwn ? await holdLifeline(client, patience) : null;
    await this.announce(client, patience);
    if (!isOwn) return this.doWithout(client);
    this.client = client;
    this.proof.connected();
    this.proof.extend(sentAt);
  }

  private async announce(client: Client, patience: number): Promise<void> {
    await announceLifeline(client, this.tables, this.instanceId, this.key, patience);
    this.announcedAt = monotonicNow();
  }

  private doWithout(client: Client): void {
    this.pooled = true;
    this.proof.byLeases();
    this.tell({ type: 'no lifeline' });
    client.end().catch(() => {});
  }

  /** Broken, not ended: a server that does not answer would keep it. */
  private disconnect(): void {
    const { client } = this;
    this.client = null;
    this.distrusted = false;
    if (!this.pooled) this.proof.cutOff();
    if (client) breakConnection(client);
  }
}
