import type { Client, Notification } from 'pg';
import type { WakeUp } from '../../database/tables.js';
import { EVERY_WAKE_UP, readWakeUp } from './heartbeat.messages.js';
import { monotonicNow } from '../../database/clock.js';
import { sessionOf } from '../../database/clients.js';

/**
 * What is heard goes on after a random time of up to this, in milliseconds: all instances hear it in the same moment.
 */
const SPREAD_MS = 50;

/** What comes within this time, in milliseconds, is one. */
const LEAST_APART_MS = 200;

/**
 * Hears what other instances have to say, on a connection that is there anyway. Nothing depends on it: what is not
 * heard is found at the next poll.
 */
export class NotificationListener {
  private connection: Client | null = null;
  private readonly heard = new Set<WakeUp>();
  private timer: NodeJS.Timeout | null = null;
  private toldAt = -Infinity;

  /**
   * @param mayHaveMissed there was another ear before this one
   * @param tell gets what was heard in a while, at once
   */
  constructor(
    private readonly channel: string,
    private readonly instanceId: string,
    private readonly tell: (wakeUps: readonly WakeUp[]) => void,
    private mayHaveMissed = false,
  ) {}

  /** There is nothing more to do for this connection. */
  knows(client: Client | null): boolean {
    return client !== null && client === this.connection;
  }

  /**
   * Listens on a new connection; after a former one, something may have been said meanwhile.
   * @returns false behind a pooler: whoever listens there is somebody else a moment later
   */
  async listenOn(client: Client, patienceMs: number): Promise<boolean> {
    client.on('notification', (notification) => this.hear(notification));
    const { isOwn } = await sessionOf(client, patienceMs);
    if (isOwn) {
      await client.query({ text: `listen ${this.channel}`, query_timeout: patienceMs } as { text: string });
      if (this.mayHaveMissed) this.note(EVERY_WAKE_UP);
      this.mayHaveMissed = true;
    }
    this.connection = client;
    return isOwn;
  }

  stop(): void {
    if (this.timer) clearTimeout(this.timer);
  }

  private hear({ channel, payload }: Notification): void {
    const wakeUp = channel === this.channel ? readWakeUp(payload, this.instanceId) : null;
    if (wakeUp) this.note([wakeUp]);
  }

  private note(wakeUps: readonly WakeUp[]): void {
    for (const wakeUp of wakeUps) this.heard.add(wakeUp);
    if (this.timer) return;
    const soonest = Math.max(0, this.toldAt + LEAST_APART_MS - monotonicNow());
    this.timer = setTimeout(() => this.passOn(), soonest + Math.random() * SPREAD_MS);
    this.timer.unref();
  }

  private passOn(): void {
    this.timer = null;
    this.toldAt = monotonicNow();
    const wakeUps = [...this.heard];
    this.heard.clear();
    this.tell(wakeUps);
  }
}
