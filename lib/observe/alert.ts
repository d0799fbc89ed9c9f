import type { Alert, AlertKind } from '../options/alert-options.js';

/** How many alerts are too many. Milliseconds. */
export interface AlertRules {
  /** The same fact is told again after this at the earliest. */
  readonly repeatAfterMs: number;
  /** How many of one kind go through within a window. */
  readonly atMost: number;
  readonly windowMs: number;
}

interface Window {
  readonly from: number;
  readonly passed: number;
  readonly held: number;
}

/** What went through lately, and what was held back. A value: every step makes a new one. */
export interface AlertGate {
  /** When each key went through. */
  readonly told: ReadonlyMap<string, number>;
  readonly windows: ReadonlyMap<AlertKind, Window>;
}

/** A kind of which more came than went through, and how many of it were held back. */
export interface HeldBack {
  readonly kind: AlertKind;
  readonly count: number;
}

export const OPEN_GATE: AlertGate = { told: new Map(), windows: new Map() };

/**
 * Whether an alert goes through. Kinds are counted apart, so that a flood of one hides no other. What is held back was
 * told to nobody, and may go through later.
 */
export function admit(
  gate: AlertGate,
  { key, kind }: Pick<Alert, 'key' | 'kind'>,
  now: number,
  rules: AlertRules,
): { gate: AlertGate; verdict: 'pass' | 'repeated' | 'held' } {
  const toldAt = gate.told.get(key);
  if (toldAt !== undefined && now - toldAt < rules.repeatAfterMs) return { gate, verdict: 'repeated' };
  const last = gate.windows.get(kind);
  const open = last && (last.held > 0 || now - last.from < rules.windowMs) ? last : { from: now, passed: 0, held: 0 };
  if (open.passed >= rules.atMost) {
    return {
      gate: { ...gate, windows: new Map(gate.windows).set(kind, { ...open, held: open.held + 1 }) },
      verdict: 'held',
    };
  }
  const lately = [...gate.told].filter(([, at]) => now - at < rules.repeatAfterMs);
  return {
    gate: {
      told: new Map(lately).set(key, now),
      windows: new Map(gate.windows).set(kind, { ...open, passed: open.passed + 1 }),
    },
    verdict: 'pass',
  };
}

/** Closes the windows that are over: what was held back in them is to be told as one. @param now Infinity closes all */
export function closeWindows(gate: AlertGate, now: number, rules: AlertRules): { gate: AlertGate; held: HeldBack[] } {
  const over = [...gate.windows].filter(([, { from }]) => now - from >= rules.windowMs);
  const windows = new Map(gate.windows);
  for (const [kind] of over) windows.delete(kind);
  return {
    gate: { ...gate, windows },
    held: over.filter(([, { held }]) => held > 0).map(([kind, { held }]) => ({ kind, count: held })),
  };
}

/** When the first window with something held back is over; null when there is none. */
export function nextClosing(gate: AlertGate, { windowMs }: AlertRules): number | null {
  const ends = [...gate.windows.values()].filter(({ held }) => held > 0).map(({ from }) => from + windowMs);
  return ends.length === 0 ? null : Math.min(...ends);
}
