import { describeError } from '../domain/runs/stored-error.js';
import { inCleanContext } from '../runtime/clean-context.js';
import type { Alert, AlertSink } from '../domain/alert.js';

/** How patient a delivery is, and whom it tells. */
export interface DeliveryOptions {
  /** How long one alert may take, in milliseconds. */
  readonly timeoutMs: number;
  /** How many alerts wait at most; more are dropped. */
  readonly atMost: number;
  /** Told in words when alerts begin to be lost, and again only after one got through. */
  readonly trouble: (text: string) => void;
}

/**
 * Hands alerts to a sink, one at a time and in order. A sink that throws, rejects, hangs or is slow costs alerts and
 * nothing else. Its timers keep no process alive.
 */
export class AlertDelivery {
  private readonly waiting: Alert[] = [];
  private delivering: Promise<void> | null = null;
  private told = false;

  constructor(
    private readonly sink: AlertSink,
    private readonly options: DeliveryOptions,
  ) {}

  add(alert: Alert): void {
    if (this.waiting.length >= this.options.atMost) return this.lost(`${this.options.atMost} alerts wait for it already`);
    this.waiting.push(alert);
    this.delivering ??= inCleanContext(() => this.deliverAll());
  }

  /** Resolves when nothing waits any more. */
  async drained(): Promise<void> {
    await this.delivering;
  }

  /** Gives up what waits. */
  abandon(): void {
    this.waiting.length = 0;
  }

  private async deliverAll(): Promise<void> {
    for (let alert = this.waiting.shift(); alert; alert = this.waiting.shift()) await this.deliver(alert);
    this.delivering = null;
  }

  private async deliver(alert: Alert): Promise<void> {
    try {
      await this.inTime(async () => this.sink.alert(alert));
      this.told = false;
    } catch (error) {
      this.lost(describeError(error).message);
    }
  }

  private async inTime(work: () => Promise<void>): Promise<void> {
    const { timeoutMs } = this.options;
    let timer: NodeJS.Timeout | undefined;
    const impatience = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`it took longer than ${timeoutMs} ms`)), timeoutMs);
      timer.unref();
    });
    try {
      await Promise.race([work(), impatience]);
    } finally {
      clearTimeout(timer);
    }
  }

  private lost(why: string): void {
    if (!this.told) this.options.trouble(`The alert sink fails, and alerts are lost until it works again: ${why}`);
    this.told = true;
  }
}
