import type { Schedule } from '../cron/schedule.js';

/**
 * Fire times that have a decision already: a row's own, or all that its gap covers. Milliseconds, both ends included.
 */
export interface DecidedSpan {
  readonly from: number;
  readonly until: number;
}

/** The fire times later than `from` and not later than `until` that no span covers. Spans are passed over whole. */
export class UndecidedFireTimes {
  private readonly spans: readonly DecidedSpan[];

  constructor(
    private readonly schedule: Schedule,
    private readonly from: number,
    private readonly until: number,
    decided: readonly DecidedSpan[],
  ) {
    this.spans = merged(decided.filter((span) => span.until > from && span.from <= until));
  }

  /** The newest of them, ascending. */
  newest(most: number): number[] {
    const found: number[] = [];
    if (most === 0) return found;
    for (let at = this.last(this.until + 1); at !== null; at = this.last(at)) {
      found.push(at);
      if (found.length === most) break;
    }
    return found.reverse();
  }

  /** The first and the last of them; null when there is none. */
  ends(): DecidedSpan | null {
    const from = this.first();
    const until = from === null ? null : this.last(this.until + 1);
    return from === null || until === null ? null : { from, until };
  }

  count(): number {
    const covered = this.spans.reduce((sum, span) => sum + this.countWithin(span.from - 1, span.until), 0);
    return this.countWithin(this.from, this.until) - covered;
  }

  private countWithin(after: number, until: number): number {
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

  /** By halves: a watermark that stood still leaves thousands of rows to look through. */
  private covering(at: number | null): DecidedSpan | null {
    if (at === null) return null;
    let low = 0;
    let high = this.spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.spans[middle]!.until < at) low = middle + 1;
      else high = middle;
    }
    const span = this.spans[low];
    return span && span.from <= at ? span : null;
  }
}

/** The same fire times in spans that do not overlap, ascending. */
function merged(spans: readonly DecidedSpan[]): DecidedSpan[] {
  const result: DecidedSpan[] = [];
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const last = result.at(-1);
    if (last && span.from <= last.until)
      result[result.length - 1] = { from: last.from, until: Math.max(last.until, span.until) };
    else result.push(span);
  }
  return result;
}
