import { Injectable } from '@nestjs/common';
import { isOutOfReach } from '../errors/database-trouble.js';
import type { EventOf } from '../observe/scheduler-event.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';

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
  const outage =
    before && at - before.seenAt <= OVER_AFTER_MS ? before : { since: at, told: false, loops: new Set<string>() };
  const tellNow = !outage.told && at - outage.since >= TOLD_AFTER_MS;
  const loops = outage.loops.has(loop) ? outage.loops : new Set([...outage.loops, loop]);
  return {
    outage: { since: outage.since, seenAt: at, told: outage.told || tellNow, loops },
    news: tellNow ? 'unreachable' : null,
  };
}

/** A pass of a loop went well again: the database answers, if it was that which failed before. */
export function outageEnds(before: Outage | null, loop: string): OutageStep {
  if (!before?.loops.has(loop)) return { outage: before, news: null };
  return { outage: null, news: before.told ? 'reachable' : null };
}

/**
 * Makes one fact of what many loops tell: the database does not answer, since when, and that it does again. Asks
 * nothing.
 */
@Injectable()
export class DatabaseWatch {
  private outage: Outage | null = null;

  constructor(private readonly events: SchedulerEvents) {}

  /** Listens until the stream ends. */
  listen(): void {
    this.events.of('loop.failed').subscribe((event) => this.failed(event));
    this.events.of('loop.recovered').subscribe(({ loop }) => this.recovered(loop));
  }

  private failed({ loop, trouble, at }: EventOf<'loop.failed'>): void {
    if (!trouble || !isOutOfReach(trouble)) return;
    const { outage, news } = outageGoesOn(this.outage, loop, at.getTime());
    this.outage = outage;
    if (news === 'unreachable')
      this.events.emit({ type: 'database.unreachable', since: new Date(outage!.since), trouble });
  }

  private recovered(loop: string): void {
    const since = this.outage?.since;
    const { outage, news } = outageEnds(this.outage, loop);
    this.outage = outage;
    if (news === 'reachable') this.events.emit({ type: 'database.reachable', since: new Date(since!) });
  }
}
