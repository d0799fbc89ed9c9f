import { readFileSync } from 'node:fs';

/** A line of test/cases/policy-cases.jsonl, as far as we read it. */
export interface PolicyCase {
  readonly id: string;
  readonly kind: 'decide' | 'decide-interval' | 'most-recent' | 'missed-list' | 'overlap-buffer' | 'timeline';
  readonly schedule: { readonly expr: string; readonly tz: string };
  readonly policy: {
    readonly overlap?: string;
    readonly catchUp: string;
    readonly maxLateMs?: number | null;
    readonly backfillMs?: number;
  };
  readonly state: {
    readonly createdAt: string;
    readonly lastFire: string | null;
    readonly paused?: boolean;
    readonly running?: { fireTime: string }[];
  };
  readonly now: string;
  readonly from: string;
  readonly to: string;
  readonly work?: { readonly slot: string; readonly runsMs?: number; readonly fails?: boolean }[];
  readonly events?: { readonly at: string; readonly do: string }[];
  readonly buffer: { readonly slot: number; readonly overlap: string }[];
  readonly running: boolean;
  readonly expect: Readonly<Record<string, unknown>>;
  readonly alsoOk?: string[][];
}

export function policyCases(): PolicyCase[] {
  const lines = readFileSync(new URL('../cases/policy-cases.jsonl', import.meta.url), 'utf8')
    .trim()
    .split('\n');
  return lines.map((line) => JSON.parse(line) as PolicyCase);
}

/**
 * Judged by the claim itself, with a run in the way; the simulated job of the planner's cases has no line and tells
 * nobody to stop.
 */
const NOT_SIMULATED = ['replace', 'queueOne', 'queueAll'];

/** What a case is about that is not offered, by name; null when it is to be passed. */
export function notOffered({ kind, policy, buffer, events, work }: PolicyCase): string | null {
  if (kind === 'decide-interval') return 'schedules that begin with their creation';
  const overlaps = [policy?.overlap, ...(buffer ?? []).map(({ overlap }) => overlap)];
  if (overlaps.includes('replaceKill')) return 'overlap replaceKill';
  const simulated = kind !== 'overlap-buffer' && NOT_SIMULATED.find((overlap) => overlaps.includes(overlap));
  if (simulated) return `overlap ${simulated} in the planner`;
  const verbs = (events ?? []).map(({ do: what }) => what);
  if (verbs.some((what) => what.startsWith('trigger now'))) return 'manual runs in the planner';
  if (verbs.some((what) => what.startsWith('backfill'))) return 'backfills in the planner';
  return work?.some(({ fails }) => fails) ? 'a pause after a failure' : null;
}
