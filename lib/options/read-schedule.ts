import { calendarText, readCalendar, type CalendarRules } from '../cron/calendar.js';
import { compileSchedule, type Schedule } from '../cron/schedule.js';
import { SchedulerError } from '../errors/errors.js';
import { expected } from './option-rules.js';

/** The compiled schedule, or everything that is wrong with its expression, its zone and its calendar. */
export function readSchedule(
  expression: unknown,
  timeZone: string,
  jobName: string,
  rules: CalendarRules,
): { schedule: Schedule | null; problems: string[] } {
  if (typeof expression !== 'string') {
    const { problem } = expected('a cron expression such as "15 2 * * *"', expression);
    return { schedule: null, problems: [problem, ...problemsOfCalendar(rules)] };
  }
  try {
    return { schedule: compileSchedule(expression, timeZone, jobName, calendarText(rules)), problems: [] };
  } catch (error) {
    if (!(error instanceof SchedulerError)) throw error;
    // Several may be wrong, and only one of them was thrown.
    const problems = [
      ...problemsOfZone(timeZone),
      ...problemsOf(() => compileSchedule(expression, 'UTC', jobName)),
      ...problemsOfCalendar(rules),
    ];
    return { schedule: null, problems: problems.length > 0 ? problems : [error.message] };
  }
}

/** What is wrong with a time zone. */
export function problemsOfZone(timeZone: string): string[] {
  return problemsOf(() => compileSchedule('* * * * *', timeZone));
}

/** What is wrong with days that all jobs leave out. */
export function problemsOfExclude(exclude: readonly string[] | undefined): string[] {
  const each = problemsOfCalendar({ exclude });
  return each.length > 0
    ? each
    : problemsOf(() => compileSchedule('* * * * *', 'UTC', undefined, calendarText({ exclude })));
}

/** What is wrong with each part by itself, whatever the expression. */
function problemsOfCalendar({ startAt, endAt, exclude = [] }: CalendarRules): string[] {
  const parts: readonly CalendarRules[] = [{ startAt, endAt }, ...exclude.map((day) => ({ exclude: [day] }))];
  return parts.flatMap((part) =>
    problemsOf(() => {
      const text = calendarText(part);
      if (text !== null) readCalendar(text);
    }),
  );
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
