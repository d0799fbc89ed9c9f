import { Injectable } from '@nestjs/common';
import { isOutOfReach } from '../domain/database-trouble.js';
import { outageEnds, outageGoesOn, type Outage } from '../domain/missed/outage.js';
import type { EventOf } from '../events/scheduler-event.js';
import { SchedulerEvents } from '../events/scheduler-events.js';

/** Makes one fact of what many loops tell: the database does not answer, since when, and that it does again. Asks nothing. */
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
    if (news === 'unreachable') this.events.emit({ type: 'database.unreachable', since: new Date(outage!.since), trouble });
  }

  private recovered(loop: string): void {
    const since = this.outage?.since;
    const { outage, news } = outageEnds(this.outage, loop);
    this.outage = outage;
    if (news === 'reachable') this.events.emit({ type: 'database.reachable', since: new Date(since!) });
  }
}
