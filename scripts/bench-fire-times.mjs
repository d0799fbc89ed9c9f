// How long it takes to read many schedules, to know their next fire times and the clock changes of a year.
//
//   npm run bench:fire-times
import { compileSchedule } from '../dist/lib/domain/schedule.js';

const MANY = 5_000;
const YEAR_MS = 365 * 86_400_000;
const EXPRESSIONS = ['* * * * * *', '*/5 * * * *', 'H * * * *', 'H H * * *', '15 2 * * *', '0 9-17 * * MON-FRI', '0 6 L * *', '30 4 15W * *', '0 0 1 1 *', '0 0 29 2 *'];

const all = Intl.supportedValuesOf('timeZone');
const now = Date.now();

for (const [what, zones] of [
  ['in 5 zones', ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe']],
  [`in all ${all.length} zones`, all],
]) {
  const jobs = Array.from({ length: MANY }, (_, index) => ({
    name: `job-${index}`,
    // Each with numbers of its own, so that nothing read for one serves another.
    expression: EXPRESSIONS[index % EXPRESSIONS.length].replace(/^15/, String(index % 60)).replace(/^30/, String((index * 7) % 60)),
    zone: zones[index % zones.length],
  }));
  const schedules = measure(`${MANY} schedules ${what}: read`, () => jobs.map(({ name, expression, zone }) => compileSchedule(expression, zone, name)));
  const nexts = measure(`${MANY} schedules ${what}: first next fire time`, () => schedules.map((schedule) => schedule.nextAfter(now)));
  measure(`${MANY} schedules ${what}: one more each`, () => schedules.map((schedule, index) => schedule.nextAfter(nexts[index])));
  measure(`${MANY} schedules ${what}: clock changes of a year`, () => schedules.map((schedule) => schedule.clockChanges(now, now + YEAR_MS)));
}

function measure(what, action) {
  const began = performance.now();
  const result = action();
  console.log(`${what}: ${Math.round(performance.now() - began)} ms`);
  return result;
}
