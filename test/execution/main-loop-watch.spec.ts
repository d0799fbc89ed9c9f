import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { MainLoopWatch } from '../../lib/runs/heartbeat/main-loop-watch.js';
import { lastBeat, Pulse } from '../../lib/runs/heartbeat/main-loop-watch.js';
import { monotonicNow } from '../../lib/database/clock.js';

const BLOCKED_AFTER_MS = 400;

/**
 * A pulse that beats when it is told to, and a watch that looks when it is told to. Milliseconds since the test began.
 */
let beats: BigInt64Array;
let told: [what: string, forMs: number][];
let watch: MainLoopWatch;
let begun: number;
beforeEach(() => {
  const memory = new SharedArrayBuffer(8);
  beats = new BigInt64Array(memory);
  told = [];
  begun = Math.ceil(monotonicNow()) + 1_000;
  watch = new MainLoopWatch(memory, BLOCKED_AFTER_MS, {
    blocked: (forMs) => told.push(['blocked', forMs]),
    unblocked: (forMs) => told.push(['unblocked', forMs]),
  });
  watch.look(begun);
});
const beat = (at: number) => Atomics.store(beats, 0, BigInt(begun + at));
/** Looks as often as its loop does. */
const look = (from: number, until: number) => {
  for (let at = from; at <= until; at += 100) watch.look(begun + at);
};

describe('the watch over an event loop', () => {
  it('tells once that it stands still, and for how long when it moves again', () => {
    beat(0);
    look(0, 300);
    expect(told).toEqual([]);
    look(400, 1_200);
    expect(told).toEqual([['blocked', 400]]);
    beat(1_250);
    look(1_300, 1_500);
    expect(told).toEqual([
      ['blocked', 400],
      ['unblocked', 1_250],
    ]);
  });

  it('tells nothing of a loop that turns', () => {
    for (let at = 0; at < 2_000; at += 300) {
      beat(at);
      look(at, at + 200);
    }
    expect(told).toEqual([]);
  });

  it('does not take a process for blocked that was frozen as a whole', () => {
    beat(0);
    look(0, 100);
    // Neither of the two runs; this thread is the first to wake up, and the other follows.
    look(60_000, 60_300);
    expect(told).toEqual([]);
    beat(60_350);
    look(60_400, 60_600);
    expect(told).toEqual([]);
  });

  it('but one that does not move after that', () => {
    beat(0);
    look(0, 100);
    look(60_000, 60_400);
    expect(told).toEqual([['blocked', 60_400]]);
  });

  it('waits for no beat of a pulse that rests, before the start', () => {
    look(0, 2_000);
    expect(told).toEqual([]);
  });

  it('nor after the end, also of one that was blocked', () => {
    beat(0);
    look(0, 500);
    Atomics.store(beats, 0, 0n);
    look(600, 2_000);
    expect(told.map(([what]) => what)).toEqual(['blocked', 'unblocked']);
  });
});

describe('the pulse of an event loop', () => {
  const pulse = new Pulse();
  afterEach(() => pulse.stop());

  it('beats while the loop turns, and rests when it is stopped', async () => {
    expect(lastBeat(pulse.memory)).toBeNull();
    pulse.start(40);
    const first = lastBeat(pulse.memory)!;
    while (lastBeat(pulse.memory) === first) await sleep(5);
    pulse.stop();
    expect(lastBeat(pulse.memory)).toBeNull();
    await sleep(50);
    expect(lastBeat(pulse.memory)).toBeNull();
  });
});
