import { beforeEach, describe, expect, it } from '@jest/globals';
import type { SchedulerEvent } from '../../lib/observe/scheduler-event.js';
import { SchedulerEvents } from '../../lib/observe/scheduler-events.js';
import { wordingOf } from '../../lib/observe/wording.js';
import { ClockWatchService } from '../../lib/maintenance/watches.service.js';
import { DatabaseTime } from '../../lib/database/clock.js';

/** A watch on a machine whose clock is as far ahead as the test says. */
class Bench {
  private monotonic = 0;
  private skewMs = 0;
  readonly told: SchedulerEvent[] = [];
  readonly watch: ClockWatchService;
  private readonly time = new DatabaseTime(
    () => this.monotonic,
    () => this.monotonic + this.skewMs,
  );

  constructor() {
    const events = new SchedulerEvents();
    events.subscribe((event) => this.told.push(event));
    this.watch = new ClockWatchService({ pollIntervalMs: 5_000, maxClockSkewMs: 5_000 } as never, this.time, events);
  }

  /** The reaper reads the database's clock, and the watch looks. */
  async look(skewMs: number): Promise<number> {
    this.monotonic += 5_000;
    this.skewMs = skewMs;
    this.time.observe(this.monotonic, this.monotonic);
    return this.watch.look();
  }

  get facts() {
    return this.told.map(({ at: _, ...fact }) => fact);
  }
}

let bench: Bench;
beforeEach(() => {
  bench = new Bench();
});

describe('G10 the watch on a machine’s clock', () => {
  it('says nothing while the clocks agree, and before the database’s clock was read', async () => {
    await bench.watch.look();
    for (const skewMs of [0, 4_999, -4_999]) expect(await bench.look(skewMs)).toBe(5_000);
    expect(bench.told).toEqual([]);
  });

  it('tells once that they disagree, by how much, and once that it is over', async () => {
    for (const skewMs of [0, -300_000, -300_000.4, -299_999, -12_000, -4_500, -5_500, 2.3, 1, 0])
      await bench.look(skewMs);
    expect(bench.facts).toEqual([
      { type: 'clock.skewed', skewMs: -300_000, maxMs: 5_000 },
      { type: 'clock.agrees', skewMs: 2 },
    ]);
  });

  it('tells again when it is much worse or on the other side, and when it begins anew', async () => {
    for (const skewMs of [6_000, 11_000, 3_600_000, 3_600_000, -3_600_000, 0, 5_001]) await bench.look(skewMs);
    expect(bench.facts.map((fact) => [fact.type, 'skewMs' in fact && fact.skewMs])).toEqual([
      ['clock.skewed', 6_000],
      ['clock.skewed', 3_600_000],
      ['clock.skewed', -3_600_000],
      ['clock.agrees', 0],
      ['clock.skewed', 5_001],
    ]);
  });

  it('is worded for a person: by how much, on which side, that nothing is lost, and what to check', async () => {
    for (const skewMs of [300_123, -3_999_700, -120]) await bench.look(skewMs);
    const [ahead, behind, over] = bench.told.map(wordingOf);
    expect(ahead).toMatchObject({
      level: 'warn',
      text: expect.stringContaining("is 5m ahead of the database's, more than maxClockSkew (5s)"),
    });
    expect(ahead!.text).toMatch(/still run on time and once, because the database's clock decides; .*\(NTP\)/);
    expect(behind!.text).toContain("is 1h6m40s behind the database's");
    expect(over).toEqual({
      level: 'log',
      text: "This machine's clock agrees with the database's again (120ms behind it)",
    });
  });
});
