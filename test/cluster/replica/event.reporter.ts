import { Injectable } from '@nestjs/common';
import { SchedulerEvents } from 'nestjs-distributed-cron';
import { Parent } from './parent.js';

/** Passes every event of the scheduler on to the test. */
@Injectable()
export class EventReporter {
  constructor(events: SchedulerEvents, parent: Parent) {
    events.subscribe((event) => void parent.tell({ kind: 'event', event }));
  }
}
