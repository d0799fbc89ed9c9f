/** How far a machine's wall clock is from the database's clock. Milliseconds. */
interface ClockSkew {
  /** Wall clock minus database clock: more than zero when the machine is ahead. */
  readonly skewMs: number;
  /** The true skew is at most this much more or less. */
  readonly uncertaintyMs: number;
}

/** A clock at the very limit is not told about again and again: it agrees when it is clearly inside. */
const AGREES_WITHIN = 0.8;

/** How many times worse than it was told a skew gets before it is told again. */
const MUCH_WORSE = 2;

/**
 * What there is to tell about a clock. A reading that may be wrong itself, because its round trip was slow, neither
 * raises an alarm nor ends one.
 * @param told the skew that was told last, in milliseconds; null while the clocks agree
 * @returns null when it was told already
 */
export function judgeSkew(
  { skewMs, uncertaintyMs }: ClockSkew,
  maxMs: number,
  told: number | null,
): 'skewed' | 'agrees' | null {
  const atLeast = Math.abs(skewMs) - uncertaintyMs;
  const atMost = Math.abs(skewMs) + uncertaintyMs;
  if (told === null) return atLeast > maxMs ? 'skewed' : null;
  if (atMost <= AGREES_WITHIN * maxMs) return 'agrees';
  const worse = Math.sign(skewMs) !== Math.sign(told) || atLeast > MUCH_WORSE * Math.abs(told);
  return worse && atLeast > maxMs ? 'skewed' : null;
}

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
