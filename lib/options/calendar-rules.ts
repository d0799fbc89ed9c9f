import { expected, type Rule } from './option-rules.js';

const WITH_OFFSET = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})$/;

/** A Date, or ISO 8601 with an offset: without one it would be another instant on another machine. */
export const instantOption: Rule<Date> = (given) => {
  const date = given instanceof Date ? given : typeof given === 'string' && WITH_OFFSET.test(given) ? new Date(given) : null;
  if (date && Math.abs(date.getTime()) < 8e15) return { value: date };
  return expected('a Date, or a text such as "2026-12-24T18:00:00+01:00"', date ? String(given) : given);
};

/** One day or expression, or a list of them; what they say is read with the schedule. */
export const days: Rule<readonly string[]> = (given) => {
  const list: unknown[] = Array.isArray(given) ? given : [given];
  const wrong = list.find((item) => typeof item !== 'string' || item.trim() === '');
  return wrong === undefined && list.length > 0 ? { value: list as string[] } : expected('a date such as "2026-12-25", a cron expression such as "* * 25 12 *", or a list of them', wrong ?? given);
};
