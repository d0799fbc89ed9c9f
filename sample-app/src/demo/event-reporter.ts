import { Injectable } from '@nestjs/common';
import { SchedulerEvents } from 'nestjs-distributed-cron';
import { tellParent } from './parent.js';

/** Sends on what the scheduler says it does, as it happens. It listens from the beginning: before the first claim. */
@Injectable()
export class EventReporter {
  constructor(events: SchedulerEvents) {
    events.subscribe((event) => tellParent({ kind: 'event', event }));
  }
}
