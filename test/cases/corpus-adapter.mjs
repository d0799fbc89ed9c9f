// Offers what is built to corpus-run.mjs.
import * as schedule from '../../dist/lib/cron/schedule.js';

export const nextFireTimes = (expression, timeZone, from, count) =>
  schedule.nextFireTimes(expression, { timeZone, from: new Date(from), count });

export const fireTimesBetween = (expression, timeZone, from, to) =>
  schedule.fireTimesBetween(expression, { timeZone, from: new Date(from), to: new Date(to) });

export const prevFireTime = (expression, timeZone, before) =>
  schedule.previousFireTime(expression, { timeZone, before: new Date(before) });
