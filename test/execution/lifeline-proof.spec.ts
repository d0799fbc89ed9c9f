import { describe, expect, it } from '@jest/globals';
import { GRACE_MS } from '../../lib/runs/liveness-proof.js';
import { LivenessProof } from '../../lib/runs/liveness-proof.js';

/** As the main thread and the heartbeat's thread have it: each its own view of the same memory. */
function proof() {
  const main = new LivenessProof();
  const thread = LivenessProof.on(main.memory);
  main.require();
  return { main, thread };
}

describe('the proof that a process lives', () => {
  it('is not asked for without fast failover', () => {
    const main = new LivenessProof();
    expect(main.mayClaim).toBe(true);
    expect(main.deadlineOf(5)).toBeGreaterThan(Number.MAX_SAFE_INTEGER - 1);
  });

  it('a claim is one for its own run', () => {
    const { main } = proof();
    expect(main.deadlineOf(5_000)).toBe(5_000 + GRACE_MS);
  });

  it('holds from when the last one was sent, not from when it was answered', () => {
    const { main, thread } = proof();
    thread.extend(5_100, 5_300);
    expect(main.deadlineOf(5_000)).toBe(5_100 + GRACE_MS);
    thread.extend(5_400, 5_400.5);
    expect(main.deadlineOf(5_000)).toBe(5_400 + GRACE_MS);
  });

  it('that comes too late revives nothing, however well it goes from then on', () => {
    const { main, thread } = proof();
    thread.extend(5_100, 5_101);
    const tooLate = 5_101 + GRACE_MS;
    thread.extend(tooLate - 100, tooLate);
    thread.extend(tooLate + 250, tooLate + 251);
    expect(main.deadlineOf(5_000)).toBe(-Infinity);
    expect(main.deadlineOf(tooLate + 1)).toBe(tooLate + 250 + GRACE_MS);
  });

  it('that comes too late for the one before is in time for a run that was claimed since', () => {
    const { main, thread } = proof();
    thread.extend(5_100, 5_101);
    const later = 5_102 + GRACE_MS;
    thread.extend(later, later);
    expect(main.deadlineOf(5_101)).toBe(-Infinity);
    expect(main.deadlineOf(5_103)).toBe(later + GRACE_MS);
  });

  it('over a new connection goes on where it was, if that was quick', () => {
    const { main, thread } = proof();
    thread.connected();
    thread.extend(5_100, 5_101);
    thread.cutOff();
    expect(main.mayClaim).toBe(false);
    thread.connected();
    thread.extend(5_900, 5_950);
    expect(main.mayClaim).toBe(true);
    expect(main.deadlineOf(5_000)).toBe(5_900 + GRACE_MS);
  });

  it('is not asked for any more when leases count; what was lost before stays lost', () => {
    const { main, thread } = proof();
    thread.extend(5_100, 5_101);
    thread.byLeases(9_000);
    expect(main.mayClaim).toBe(true);
    expect(main.deadlineOf(5_000)).toBe(-Infinity);
    expect(main.deadlineOf(9_000)).toBeGreaterThan(Number.MAX_SAFE_INTEGER - 1);
  });
});
