import { Injectable } from '@nestjs/common';
import { filter, Observable, type Observer, type Operator, Subject, Subscriber, type Subscription } from 'rxjs';
import { inCleanContext } from '../database/loop.js';
import { OwnLogger, unattended } from './own-logger.js';
import type { EventOf, SchedulerEvent, SchedulerFact } from './scheduler-event.js';

type Next<Value> = (value: Value) => void;

/**
 * An observable whose listeners can't end the process. What a listener or an operator before it throws would reach
 * rxjs' last resort, an uncaught exception; here it is logged.
 */
export class GuardedObservable<Value> extends Observable<Value> {
  /** Keeps what operators make of it guarded, too. */
  override lift<Result>(operator?: Operator<Value, Result>): Observable<Result> {
    const lifted = new GuardedObservable<Result>();
    lifted.source = this;
    lifted.operator = operator;
    return lifted;
  }

  override subscribe(observer?: Partial<Observer<Value>> | Next<Value>): Subscription;
  override subscribe(
    next?: Next<Value> | null,
    error?: Next<unknown> | null,
    complete?: (() => void) | null,
  ): Subscription;
  override subscribe(
    observer?: Partial<Observer<Value>> | Next<Value> | null,
    error?: Next<unknown> | null,
    complete?: (() => void) | null,
  ): Subscription {
    if (observer instanceof Subscriber) return super.subscribe(observer);
    const given = typeof observer === 'object' ? observer : { next: observer, error, complete };
    return super.subscribe({
      next: (value) => unattended(() => given?.next?.(value), report),
      error: (failure: unknown) => unattended(() => (given?.error ?? rethrow)(failure), report),
      complete: () => unattended(() => given?.complete?.(), report),
    });
  }
}

function rethrow(failure: unknown): never {
  throw failure;
}

function report(error: unknown): void {
  new OwnLogger('SchedulerEvents').error(
    'A listener of SchedulerEvents threw',
    error instanceof Error ? error.stack : String(error),
  );
}

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
