import { GRACE_MS } from './fast-failover.js';
import { monotonicNow } from '../database/clock.js';

const UNTIL = 0;
const SINCE = 1;
const STANDING = 2;

/** Nothing has to be proved: runs are judged by their leases alone. */
const BY_LEASES = 0n;
const CUT_OFF = 1n;
const CONNECTED = 2n;

const FOR_EVER = BigInt(Number.MAX_SAFE_INTEGER);

/**
 * Until when this process may take itself for alive in the eyes of others: written by the heartbeat's thread, in shared
 * memory, and read by the main thread, also after it was blocked. Without `fastFailover` it is proved for ever.
 */
export class LivenessProof {
  private readonly values: BigInt64Array;

  /** @param memory that of the proof on another thread */
  constructor(
    readonly memory = new SharedArrayBuffer(3 * BigInt64Array.BYTES_PER_ELEMENT),
    isNew = true,
  ) {
    this.values = new BigInt64Array(memory);
    if (isNew) Atomics.store(this.values, UNTIL, FOR_EVER);
  }

  static on(memory: SharedArrayBuffer): LivenessProof {
    return new LivenessProof(memory, false);
  }

  /** From now on it has to be proved. */
  require(): void {
    Atomics.store(this.values, UNTIL, 0n);
    Atomics.store(this.values, STANDING, CUT_OFF);
  }

  /** False while the others may see that the liveness lock is gone: what is claimed now would soon be taken over. */
  get mayClaim(): boolean {
    return Atomics.load(this.values, STANDING) !== CUT_OFF;
  }

  /**
   * When a run that was claimed then is lost if nothing more is proved: after the last proof, as its claim was one.
   * @param claimedAt when the claim was sent; as what is returned, by the monotonic clock, milliseconds
   * @returns -Infinity when for a while since then nothing was proved
   */
  deadlineOf(claimedAt: number): number {
    // In this order, the reverse of the writer's: an old end with a new beginning is a break, and not the other way
    // round.
    const until = Number(Atomics.load(this.values, UNTIL));
    const since = Number(Atomics.load(this.values, SINCE));
    return claimedAt < since ? -Infinity : Math.max(until, claimedAt + GRACE_MS);
  }

  connected(): void {
    Atomics.store(this.values, STANDING, CONNECTED);
  }

  cutOff(): void {
    Atomics.store(this.values, STANDING, CUT_OFF);
  }

  /** Others judge this instance by its leases, and know it. */
  byLeases(now = monotonicNow()): void {
    this.cover(FOR_EVER, now);
    Atomics.store(this.values, STANDING, BY_LEASES);
  }

  /** @param sentAt when that was sent which has proved it just now, by the monotonic clock, milliseconds */
  extend(sentAt: number, now = monotonicNow()): void {
    this.cover(BigInt(Math.floor(sentAt + GRACE_MS)), now);
  }

  /** What was claimed so early that it was lost before is not found again. */
  private cover(until: bigint, now: number): void {
    if (now > Number(Atomics.load(this.values, UNTIL)))
      Atomics.store(this.values, SINCE, BigInt(Math.ceil(now - GRACE_MS)));
    Atomics.store(this.values, UNTIL, until);
  }
}
