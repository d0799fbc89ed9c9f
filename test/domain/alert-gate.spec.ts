import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { AlertKind } from '../../lib/options/alert-options.js';
import {
  admit,
  closeWindows,
  nextClosing,
  OPEN_GATE,
  type AlertGate,
  type HeldBack,
} from '../../lib/observe/alert-delivery.js';

const RULES = { repeatAfterMs: 1_000, atMost: 2, windowMs: 100 };

interface Step {
  readonly at: number;
  readonly kind: AlertKind;
  readonly key: string;
}

/** What becomes of alerts, one after the other, as the service does it. */
function walk(steps: readonly Step[]) {
  let gate: AlertGate = OPEN_GATE;
  const summaries: HeldBack[] = [];
  const close = (now: number) => {
    const closed = closeWindows(gate, now, RULES);
    gate = closed.gate;
    summaries.push(...closed.held);
  };
  const verdicts = steps.map(({ at, kind, key }) => {
    close(at);
    const step = admit(gate, { kind, key }, at, RULES);
    gate = step.gate;
    return step.verdict;
  });
  const closing = nextClosing(gate, RULES);
  close(Infinity);
  return { verdicts, summaries, closing };
}

const dead = (at: number, key: string): Step => ({ at, kind: 'run.dead', key });

describe('an alert goes through', () => {
  it.each<[string, Step[], string[]]>([
    ['the first time', [dead(0, 'a')], ['pass']],
    ['not again soon', [dead(0, 'a'), dead(999, 'a')], ['pass', 'repeated']],
    [
      'again later, counted from when it was told',
      [dead(0, 'a'), dead(500, 'a'), dead(1_000, 'a')],
      ['pass', 'repeated', 'pass'],
    ],
    ['unless too many of its kind did', [dead(0, 'a'), dead(1, 'b'), dead(2, 'c')], ['pass', 'pass', 'held']],
    [
      'whatever of another kind came',
      [dead(0, 'a'), dead(1, 'b'), dead(2, 'c'), { at: 3, kind: 'job.overdue', key: 'd' }],
      ['pass', 'pass', 'held', 'pass'],
    ],
    [
      'when the flood is over, if it was held back',
      [dead(0, 'a'), dead(1, 'b'), dead(2, 'c'), dead(100, 'c')],
      ['pass', 'pass', 'held', 'pass'],
    ],
    [
      'though repetitions came: they count for nothing',
      [dead(0, 'a'), dead(1, 'a'), dead(2, 'a'), dead(3, 'b')],
      ['pass', 'repeated', 'repeated', 'pass'],
    ],
  ])('%s', (_what, steps, verdicts) => {
    expect(walk(steps).verdicts).toEqual(verdicts);
  });

  it('in place of a flood, once for all', () => {
    const { summaries, closing } = walk([dead(0, 'a'), dead(1, 'b'), dead(2, 'c'), dead(3, 'd'), dead(99, 'e')]);
    expect(summaries).toEqual([{ kind: 'run.dead', count: 3 }]);
    expect(closing).toBe(100);
  });

  it('never too often, never the same too soon, and none is forgotten', () => {
    const step = fc.record({
      after: fc.integer({ min: 0, max: 150 }),
      kind: fc.constantFrom<AlertKind>('run.dead', 'run.orphaned'),
      name: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (given) => {
        let at = 0;
        const steps = given.map(({ after, kind, name }) => ({ at: (at += after), kind, key: `${kind} ${name}` }));
        const { verdicts, summaries } = walk(steps);
        const passed = steps.filter((_, index) => verdicts[index] === 'pass');
        for (const one of passed) {
          expect(
            passed.filter(({ key, at: other }) => key === one.key && Math.abs(other - one.at) < RULES.repeatAfterMs),
          ).toHaveLength(1);
          // Two windows may meet, the busy end of one and the busy beginning of the next.
          expect(
            passed.filter(
              ({ kind, at: other }) => kind === one.kind && other >= one.at && other - one.at < RULES.windowMs,
            ).length,
          ).toBeLessThanOrEqual(2 * RULES.atMost);
        }
        const held = verdicts.filter((verdict) => verdict === 'held').length;
        expect(summaries.reduce((sum, { count }) => sum + count, 0)).toBe(held);
        // What was not told had been told just before.
        steps.forEach(({ key, at: now }, index) => {
          if (verdicts[index] === 'repeated')
            expect(passed.some((one) => one.key === key && one.at <= now && now - one.at < RULES.repeatAfterMs)).toBe(
              true,
            );
        });
      }),
    );
  });
});
