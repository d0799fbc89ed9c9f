import { filter, firstValueFrom, race, ReplaySubject, timer } from 'rxjs';
import type { SchedulerEvents } from '../events/scheduler-events.js';

/** A change of a job that this instance is expected to follow. */
export interface FollowedHere {
  /** Resolves when it has, and at the latest after so many milliseconds. */
  within(millis: number): Promise<void>;
  /** Listens no more. */
  forget(): void;
}

/** Listens from now on. */
export function followedHere(events: SchedulerEvents, jobName: string): FollowedHere {
  const seen = new ReplaySubject<unknown>(1);
  const listening = events
    .of('job.scheduled', 'job.unscheduled', 'job.unreadable')
    .pipe(filter((event) => event.jobName === jobName))
    .subscribe(seen);
  return {
    within: async (millis) => {
      await firstValueFrom(race(seen, timer(millis)), { defaultValue: null });
    },
    forget: () => listening.unsubscribe(),
  };
}
