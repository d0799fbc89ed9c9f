import { describe, expect, it } from '@jest/globals';
import { DatabaseTime } from '../../lib/database/clock.js';

/** A machine whose monotonic clock the test moves. */
class Machine {
  monotonic = 5_000;
  /** How far its wall clock is ahead of the monotonic one. */
  wallOffset = 0;
  readonly time = new DatabaseTime(
    () => this.monotonic,
    () => this.monotonic + this.wallOffset,
  );

  /** The database answers `databaseNow` half-way through a round trip. */
  ask(databaseNow: number, roundTrip: number): void {
    const sentAt = this.monotonic;
    this.monotonic += roundTrip;
    this.time.observe(databaseNow, sentAt);
  }
}

const HOUR = 3_600_000;

describe('G10 the database’s clock', () => {
  it('is what the database said, half a round trip ago, and runs on with the monotonic clock', () => {
    const machine = new Machine();
    machine.ask(1_000_000, 10);
    expect(machine.time.now()).toBe(1_000_005);
    machine.monotonic += 60_000;
    expect(machine.time.now()).toBe(1_060_005);
  });

  it('is not known before it was read', () => {
    expect(() => new Machine().time.now()).toThrow(/has not been read/);
  });

  it('keeps a good reading rather than a slow one that agrees with it', () => {
    const machine = new Machine();
    machine.ask(1_000_000, 2);
    machine.ask(1_000_300, 800);
    expect(machine.time.now()).toBe(1_000_801);
  });

  it('takes a slow reading that contradicts: the database’s clock was stepped', () => {
    const machine = new Machine();
    machine.ask(1_000_000, 2);
    machine.ask(4_600_000, 800);
    expect(machine.time.now()).toBe(4_600_400);
  });

  it('takes a slow reading when the good one is old, for clocks drift', () => {
    const machine = new Machine();
    machine.ask(1_000_000, 2);
    machine.monotonic += 86_400_000;
    machine.ask(87_400_200, 400);
    expect(machine.time.now()).toBe(87_400_400);
  });

  it('is of all readings that agree the one with the smallest round trip, refreshed when a better one comes', () => {
    const machine = new Machine();
    machine.ask(1_000_030, 100);
    machine.ask(1_000_101, 2);
    expect(machine.time.now()).toBe(1_000_102);
    machine.ask(1_000_142, 60);
    expect(machine.time.now()).toBe(1_000_162);
    machine.ask(1_000_164, 1);
    expect(machine.time.now()).toBe(1_000_164.5);
  });

  it('follows a clock that steps an hour on and back again, each with the next reading', () => {
    const machine = new Machine();
    machine.ask(10_000_000, 2);
    machine.monotonic += 5_000;
    machine.ask(10_005_003 + HOUR, 30);
    expect(machine.time.now()).toBe(10_005_018 + HOUR);
    machine.monotonic += 5_000;
    machine.ask(10_010_020, 2);
    expect(machine.time.now()).toBe(10_010_021);
  });

  it('is found again after a sleep of the machine, in which the monotonic clock stood still', () => {
    const machine = new Machine();
    machine.ask(10_000_000, 2);
    machine.ask(10_000_002 + HOUR, 2);
    expect(machine.time.now()).toBe(10_000_003 + HOUR);
  });
});

describe('G10 the skew of a machine’s clock', () => {
  it('is not known before the database’s clock was read', () => {
    expect(new Machine().time.skew).toBeNull();
  });

  it.each([
    ['ahead', 300_000],
    ['behind', -300_000],
  ])('is how much it is %s, give or take half a round trip', (_, skewMs) => {
    const machine = new Machine();
    machine.wallOffset = 995_000 + skewMs;
    machine.ask(1_000_005, 10);
    expect(machine.time.skew).toEqual({ skewMs, uncertaintyMs: 5 });
  });

  it('shows a wall clock that jumps, and one of the database, with the next reading', () => {
    const machine = new Machine();
    machine.wallOffset = 995_000;
    machine.ask(1_000_001, 2);
    machine.wallOffset += HOUR;
    machine.ask(1_000_003, 2);
    expect(machine.time.skew!.skewMs).toBe(HOUR);
    machine.ask(1_000_005 + HOUR, 2);
    expect(machine.time.skew!.skewMs).toBe(0);
  });

  it('is no alarm when a machine wakes up: its wall clock went on, its monotonic clock did not', () => {
    const machine = new Machine();
    machine.wallOffset = 995_000;
    machine.ask(1_000_001, 2);
    machine.wallOffset += HOUR;
    expect(machine.time.skew!.skewMs).toBe(0);
    machine.ask(1_000_003 + HOUR, 2);
    expect(machine.time.skew!.skewMs).toBe(0);
  });

  it('is the less certain the older the reading it rests on', () => {
    const machine = new Machine();
    machine.ask(1_000_001, 2);
    machine.monotonic += 100_000;
    machine.ask(1_100_503, 1_000);
    expect(machine.time.skew!.uncertaintyMs).toBeCloseTo(11.1);
  });
});
