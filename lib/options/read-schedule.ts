import { calendarText } from '../domain/calendar.js';
import { compileSchedule, type Schedule } from '../domain/schedule.js';
import { SchedulerError } from '../errors/scheduler.error.js';
import { expected } from './option-rules.js';

/** The compiled schedule, or everything that is wrong with its expression, its zone and its calendar. */
export function readSchedule(
  expression: unknown,
  timeZone: string,
  jobName: string,
  calendar: string | null,
): { schedule: Schedule | null; problems: string[] } {
  if (typeof expression !== 'string') return { schedule: null, problems: [expected('a cron expression such as "15 2 * * *"', expression).problem] };
  try {
    return { schedule: compileSchedule(expression, timeZone, jobName, calendar), problems: [] };
  } catch (error) {
    if (!(error instanceof SchedulerError)) throw error;
    // The zone and the expression may both be wrong, and only one of them was thrown.
    const problems = [...problemsOfZone(timeZone), ...problemsOf(() => compileSchedule(expression, 'UTC', jobName))];
    return { schedule: null, problems: problems.length > 0 ? problems : [error.message] };
  }
}

/** What is wrong with a time zone. */
export function problemsOfZone(timeZone: string): string[] {
  return problemsOf(() => compileSchedule('* * * * *', timeZone));
}

/** What is wrong with days that all jobs leave out. */
export function problemsOfExclude(exclude: readonly string[] | undefined): string[] {
  return problemsOf(() => compileSchedule('* * * * *', 'UTC', undefined, calendarText({ exclude })));
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
