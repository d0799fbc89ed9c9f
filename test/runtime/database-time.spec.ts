import { describe, expect, it } from '@jest/globals';
import { DatabaseTime } from '../../lib/runtime/database-time.js';

/** A machine whose monotonic clock the test moves. */
class Machine {
  monotonic = 5_000;
  readonly time = new DatabaseTime(() => this.monotonic);

  /** The database answers `databaseNow` half-way through a round trip. */
  ask(databaseNow: number, roundTrip: number): void {
    const sentAt = this.monotonic;
    this.monotonic += roundTrip;
    this.time.observe(databaseNow, sentAt);
  }
}

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
});
