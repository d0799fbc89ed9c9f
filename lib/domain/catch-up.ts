import type { JobPolicies } from './job-definition.js';
import type { SkipReason } from './run.js';
import type { Schedule } from './schedule.js';

/** Fire times that have a decision already: a row's own, or all that its gap covers. Milliseconds, both ends included. */
export interface DecidedSpan {
  readonly from: number;
  readonly until: number;
}

/** Occurrences that are not run: one row covers them all. Milliseconds, both ends included. */
export interface MissedGap {
  readonly from: number;
  readonly until: number;
  readonly count: number;
  readonly reason: SkipReason;
}

/** What becomes of the missed occurrences of one job. */
export interface CatchUpPlan {
  /** Fire times to run, oldest first, milliseconds. */
  readonly run: readonly number[];
  readonly record: readonly MissedGap[];
  /** Once the plan is written, everything up to here is decided. Milliseconds. */
  readonly decidedUntil: number;
}

/** The time a catch-up decides about. Instants are epoch milliseconds. */
export interface CatchUpWindow {
  /** Everything up to here is decided; exclusive. */
  readonly from: number;
  /** The database's clock. */
  readonly now: number;
  /** Set while an operator holds the job back: what came due since then is not missed. */
  readonly held: { readonly since: number; readonly reason: 'paused' | 'disabled' } | null;
}

/** Fire times up to here are missed, later ones merely late or still held back by the jitter. Milliseconds. */
export function missedUntil(now: number, rules: Pick<JobPolicies, 'lateAfterMs' | 'jitterMs'>): number {
  return now - rules.lateAfterMs - rules.jitterMs;
}

/**
 * Decides about every missed fire time that has no decision yet: run it or record it. Fire times are compared with the
 * rows there are, never with the newest row: an earlier one may be missing behind it. The work is in proportion to what
 * is run and to the rows, not to the length of the gap.
 */
export function planCatchUp(
  schedule: Schedule,
  window: CatchUpWindow,
  decided: readonly DecidedSpan[],
  rules: Pick<JobPolicies, 'missed' | 'maxCatchUp' | 'catchUpWindowMs' | 'lateAfterMs' | 'jitterMs'>,
): CatchUpPlan {
  const end = Math.max(window.from, missedUntil(window.now, rules));
  const until = window.held ? Math.min(end, Math.max(window.from, window.held.since)) : end;
  const oldest = Math.min(until, Math.max(window.from, window.now - rules.catchUpWindowMs));
  const missed = new UndecidedFireTimes(schedule, oldest, until, decided);
  const run = missed.newest(atMost(rules));
  const left = new UndecidedFireTimes(schedule, oldest, run.length > 0 ? run[0]! - 1 : until, decided);
  const tooOld = new UndecidedFireTimes(schedule, window.from, oldest, decided);
  const held = window.held && new UndecidedFireTimes(schedule, until, end, decided).gap(window.held.reason);
  return {
    run,
    record: [tooOld.gap('missed: too old'), left.gap(leftOut(rules)), held].filter((gap) => gap !== null),
    decidedUntil: end,
  };
}

function atMost({ missed, maxCatchUp }: Pick<JobPolicies, 'missed' | 'maxCatchUp'>): number {
  return { skip: 0, once: 1, all: maxCatchUp }[missed];
}

function leftOut({ missed }: Pick<JobPolicies, 'missed'>): SkipReason {
  const reasons = { skip: 'missed: skipped', once: 'missed: superseded by a newer one', all: 'missed: too many' } as const;
  return reasons[missed];
}

/** The fire times later than `from` and not later than `until` that no span covers. */
class UndecidedFireTimes {
  private readonly spans: readonly DecidedSpan[];

  constructor(
    private readonly schedule: Schedule,
    private readonly from: number,
    private readonly until: number,
    decided: readonly DecidedSpan[],
  ) {
    this.spans = merged(decided);
  }

  /** The newest of them, ascending. */
  newest(most: number): number[] {
    const found: number[] = [];
    for (let at = this.last(this.until + 1); at !== null && found.length < most; at = this.last(at)) found.unshift(at);
    return found;
  }

  gap(reason: SkipReason): MissedGap | null {
    const from = this.first();
    const until = this.last(this.until + 1);
    if (from === null || until === null) return null;
    const covered = this.spans.reduce((sum, span) => sum + this.count(span.from - 1, span.until), 0);
    return { from, until, count: this.count(this.from, this.until) - covered, reason };
  }

  private count(after: number, until: number): number {
    const from = Math.max(after, this.from);
    const to = Math.min(until, this.until);
    return to <= from ? 0 : this.schedule.countBetween(from, to);
  }

  private first(): number | null {
    let at = this.schedule.nextAfter(this.from);
    for (let span = this.covering(at); span; span = this.covering(at)) at = this.schedule.nextAfter(span.until);
    return at !== null && at <= this.until ? at : null;
  }

  private last(before: number): number | null {
    let at = this.schedule.previousBefore(before);
    for (let span = this.covering(at); span; span = this.covering(at)) at = this.schedule.previousBefore(span.from);
    return at !== null && at > this.from ? at : null;
  }

  private covering(at: number | null): DecidedSpan | undefined {
    return at === null ? undefined : this.spans.find((span) => span.from <= at && at <= span.until);
  }
}

/** The same fire times in spans that do not overlap, ascending. */
function merged(spans: readonly DecidedSpan[]): DecidedSpan[] {
  const result: DecidedSpan[] = [];
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const last = result.at(-1);
    if (last && span.from <= last.until) result[result.length - 1] = { from: last.from, until: Math.max(last.until, span.until) };
    else result.push(span);
  }
  return result;
}
