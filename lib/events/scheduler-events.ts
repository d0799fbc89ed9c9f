import { Injectable } from '@nestjs/common';
import { filter, Subject, type Observable } from 'rxjs';
import { inCleanContext } from '../runtime/clean-context.js';
import { GuardedObservable } from './guarded-observable.js';
import type { EventOf, SchedulerEvent, SchedulerFact } from './scheduler-event.js';

/**
 * The stream of everything the scheduler does on this instance. Hot: a listener gets what happens after it subscribed.
 * A listener that throws is logged and hears on; it hurts neither the scheduler nor other listeners.
 */
@Injectable()
export class SchedulerEvents extends GuardedObservable<SchedulerEvent> {
  private readonly subject = new Subject<SchedulerEvent>();

  constructor() {
    super((subscriber) => this.subject.subscribe(subscriber));
  }

  /** The events of some types alone. */
  of<Type extends SchedulerFact['type']>(...types: Type[]): Observable<EventOf<Type>> {
    return this.pipe(filter((event): event is EventOf<Type> => (types as string[]).includes(event.type)));
  }

  /** Tells all listeners, in nobody's async context; never throws. */
  emit(fact: SchedulerFact): void {
    inCleanContext(() => this.subject.next({ at: new Date(), ...fact }));
  }

  /** Ends the stream; what is emitted later goes nowhere. */
  close(): void {
    this.subject.complete();
  }
}
