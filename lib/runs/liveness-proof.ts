import { monotonicNow } from '../database/clock.js';

/**
 * How fast failover is safe. The thread of the heartbeat holds an advisory lock, its lifeline, on a session of its own,
 * and proves now and then that this session is there. All times below are milliseconds by monotonic clocks.
 *
 * - A proof sent at s is carried out at p ≥ s, by a session that holds the lock then. Without a newer one the runs of the
 *   instance are aborted at s + GRACE_MS. A claim counts as the first proof for its own run.
 * - Each session has a key of its own, which stands in the row of the instance before its first proof is answered, gives
 *   way there to that of a later session only, and is never locked again once it is free. So whoever finds the lock of
 *   that key free at f, and the same key in the row at t, knows that nothing was proved in between: s ≤ p ≤ f.
 * - A run is taken over at t ≥ f + `GONE_FOR_MS`, f being the first look that found both the run and the lock free. Its
 *   owner has aborted it by s + GRACE_MS ≤ f + GRACE_MS < t.
 *
 * The fences of the run and its receipts hold besides, as after a lease that ran out.
 */
export const GRACE_MS = 1_100;

/** Between two proofs while a run is in flight. */
export const PROVE_EVERY_MS = 250;

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
