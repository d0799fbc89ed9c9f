import { compileSchedule, type Schedule } from '../domain/schedule.js';
import { SchedulerError } from '../errors/scheduler.error.js';
import { expected } from './option-rules.js';

/** The compiled schedule, or everything that is wrong with its expression and its zone. */
export function readSchedule(expression: unknown, timeZone: string, jobName: string): { schedule: Schedule | null; problems: string[] } {
  if (typeof expression !== 'string') return { schedule: null, problems: [expected('a cron expression such as "15 2 * * *"', expression).problem] };
  try {
    return { schedule: compileSchedule(expression, timeZone, jobName), problems: [] };
  } catch (error) {
    if (!(error instanceof SchedulerError)) throw error;
    // The zone and the expression may both be wrong, and only one of them was thrown.
    const problems = [...problemsOfZone(timeZone), ...problemsOf(() => compileSchedule(expression, 'UTC', jobName))];
    return { schedule: null, problems };
  }
}

/** What is wrong with a time zone. */
export function problemsOfZone(timeZone: string): string[] {
  return problemsOf(() => compileSchedule('* * * * *', timeZone));
}

function problemsOf(action: () => unknown): string[] {
  try {
    action();
    return [];
  } catch (error) {
    if (error instanceof SchedulerError) return [error.message];
    throw error;
  }
}
