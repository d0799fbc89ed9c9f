import { databaseTrouble } from '../domain/database-trouble.js';
import { describeError } from '../domain/runs/stored-error.js';
import type { LoopOptions } from '../runtime/loop.js';
import type { SchedulerEvents } from './scheduler-events.js';

/** What a loop tells when its passes fail and when they work again. @param loop its name, for people */
export function loopListener(events: SchedulerEvents, loop: string): Required<Pick<LoopOptions, 'onFailure' | 'onRecovery'>> {
  return {
    onFailure: (error, failures) =>
      events.emit({ type: 'loop.failed', loop, error: describeError(error), failures, trouble: databaseTrouble(error) }),
    onRecovery: () => events.emit({ type: 'loop.recovered', loop }),
  };
}
