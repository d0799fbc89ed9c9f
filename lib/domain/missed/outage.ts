/** A time in which the database does not answer. Milliseconds. */
export interface Outage {
  readonly since: number;
  /** The last failure of it. */
  readonly seenAt: number;
  /** Somebody was told. */
  readonly told: boolean;
  /** Whose passes failed. */
  readonly loops: ReadonlySet<string>;
}

/** What follows from a pass that failed or went well. */
export interface OutageStep {
  readonly outage: Outage | null;
  readonly news: 'unreachable' | 'reachable' | null;
}

/** Shorter than that is a restart or a failover, of which nobody has to be told. */
const TOLD_AFTER_MS = 10_000;

/** Passes that fail are tried again sooner than this: a failure that comes later belongs to another outage. */
const OVER_AFTER_MS = 5 * 60_000;

/** A pass of a loop did not reach the database. */
export function outageGoesOn(before: Outage | null, loop: string, at: number): OutageStep {
  const outage = before && at - before.seenAt <= OVER_AFTER_MS ? before : { since: at, told: false, loops: new Set<string>() };
  const tellNow = !outage.told && at - outage.since >= TOLD_AFTER_MS;
  const loops = outage.loops.has(loop) ? outage.loops : new Set([...outage.loops, loop]);
  return { outage: { since: outage.since, seenAt: at, told: outage.told || tellNow, loops }, news: tellNow ? 'unreachable' : null };
}

/** A pass of a loop went well again: the database answers, if it was that which failed before. */
export function outageEnds(before: Outage | null, loop: string): OutageStep {
  if (!before?.loops.has(loop)) return { outage: before, news: null };
  return { outage: null, news: before.told ? 'reachable' : null };
}
