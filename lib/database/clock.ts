import type { ClockSkew } from './clock-skew.js';

/**
 * Milliseconds by the machine's monotonic clock: never set back, the same in every thread of the process, and running
 * on while the process is frozen. Only differences mean anything.
 */
export function monotonicNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** How much two clocks may drift apart, as a share of the time since they were compared: 100 parts in a million. */
const DRIFT = 1e-4;

/**
 * The database's clock as this process knows it: the last good comparison plus what the monotonic clock has counted
 * since. The machine's own wall clock, wrong or stepping, has no part in it.
 */
export class DatabaseTime {
  private offset = 0;
  private uncertainty = Infinity;
  private measuredAt = 0;
  private readAt = 0;
  private wallOffset = 0;

  constructor(
    private readonly monotonic: () => number = monotonicNow,
    private readonly wall: () => number = Date.now,
  ) {}

  /** True once the database's clock has been read. */
  get known(): boolean {
    return this.uncertainty !== Infinity;
  }

  /** Milliseconds since 1970 by the database's clock. */
  now(): number {
    if (!this.known) throw new Error('The database’s clock has not been read yet.');
    return this.monotonic() + this.offset;
  }

  /**
   * The skew of this machine's wall clock at the last reading; null before the first. Not that of this moment: on a
   * machine that slept, the monotonic clock stood still, and until the next reading it looks as if the wall clock had
   * jumped.
   */
  get skew(): ClockSkew | null {
    return this.known
      ? { skewMs: this.wallOffset - this.offset, uncertaintyMs: this.uncertaintyAt(this.readAt) }
      : null;
  }

  /**
   * Takes a reading of the database's clock.
   * @param sentAt monotonic time just before the statement was sent; the answer came now
   */
  observe(databaseNow: Date | number, sentAt: number): void {
    const receivedAt = this.monotonic();
    this.readAt = receivedAt;
    this.wallOffset = this.wall() - receivedAt;
    const halfTrip = (receivedAt - sentAt) / 2;
    const offset = Number(databaseNow) - (sentAt + halfTrip);
    const aged = this.uncertaintyAt(receivedAt);
    const agrees = Math.abs(offset - this.offset) <= halfTrip + aged;
    if (agrees && halfTrip >= aged) return;
    this.offset = offset;
    this.uncertainty = halfTrip;
    this.measuredAt = receivedAt;
  }

  /** How wrong the estimate may be at a monotonic time: it ages. */
  private uncertaintyAt(monotonic: number): number {
    return this.uncertainty + (monotonic - this.measuredAt) * DRIFT;
  }
}
