import { Observable, Subscriber, type Observer, type Operator, type Subscription } from 'rxjs';
import { OwnLogger } from '../logging/own-logger.js';

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
  override subscribe(next?: Next<Value> | null, error?: Next<unknown> | null, complete?: (() => void) | null): Subscription;
  override subscribe(
    observer?: Partial<Observer<Value>> | Next<Value> | null,
    error?: Next<unknown> | null,
    complete?: (() => void) | null,
  ): Subscription {
    if (observer instanceof Subscriber) return super.subscribe(observer);
    const given = typeof observer === 'object' ? observer : { next: observer, error, complete };
    return super.subscribe({
      next: (value) => guard(() => given?.next?.(value)),
      error: (failure: unknown) => guard(() => (given?.error ?? rethrow)(failure)),
      complete: () => guard(() => given?.complete?.()),
    });
  }
}

function rethrow(failure: unknown): never {
  throw failure;
}

/** An asynchronous listener is waited for by nobody; what it rejects with would end the process, too. */
function guard(listen: () => unknown): void {
  try {
    const returned = listen();
    if (returned instanceof Promise) returned.catch(report);
  } catch (error) {
    report(error);
  }
}

function report(error: unknown): void {
  new OwnLogger('SchedulerEvents').error('A listener of SchedulerEvents threw', error instanceof Error ? error.stack : String(error));
}
