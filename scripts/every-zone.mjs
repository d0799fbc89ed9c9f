// Goes through 400 days in every time zone that this Node.js knows, forwards and backwards, and says where fire times
// stall, repeat, come in another order or are counted wrong.
//
//   npm run check:zones                       every zone
//   node scripts/every-zone.mjs --every 30    each thirtieth, and those with unusual changes
//   node scripts/every-zone.mjs --from 2011-01-01
import { parseArgs } from 'node:util';
import { compileSchedule } from '../dist/lib/cron/schedule.js';

const HOUR_MS = 3_600_000;
const SPAN_MS = 400 * 24 * HOUR_MS;

/** Half an hour, two hours, midnight, a quarter past, Ramadan, three hours, a day across the date line. */
const UNUSUAL = [
  'Australia/Lord_Howe',
  'Antarctica/Troll',
  'Africa/Cairo',
  'America/Havana',
  'Asia/Beirut',
  'Pacific/Chatham',
  'Africa/Casablanca',
  'Antarctica/Casey',
  'Pacific/Apia',
  'America/St_Johns',
];

/** With the longest time that may pass between two fire times: a clock may change by some hours in between. */
const SCHEDULES = [
  ['20,50 * * * *', 3.5],
  ['*/15 1-3 * * *', 27],
  ['30 2 * * *', 27],
  ['0 0 * * *', 27],
  ['59 23 * * *', 27],
  ['15 */6 * * *', 12],
  ['0 0,1,2,3 * * *', 27],
  ['10 0 L * *', 31 * 24 + 3],
  ['0 2 * * SUN', 7 * 24 + 3],
];

const { values } = parseArgs({
  options: { every: { type: 'string', default: '1' }, from: { type: 'string', default: '2026-01-01' } },
});
const from = Date.parse(values.from);
const zones = new Set([
  ...Intl.supportedValuesOf('timeZone').filter((_, index) => index % Number(values.every) === 0),
  ...UNUSUAL,
]);

let walked = 0;
const problems = [];
for (const zone of zones) {
  for (const [expression, longestHours] of SCHEDULES) {
    const { fires, found } = walk(compileSchedule(expression, zone), longestHours * HOUR_MS);
    walked += fires;
    problems.push(...found.map((problem) => `${zone} "${expression}": ${problem}`));
  }
}
for (const problem of problems) console.log(problem);
console.log(`${zones.size} zones, ${SCHEDULES.length} schedules, ${walked} fire times, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;

function walk(schedule, longestMs) {
  const found = [];
  const to = from + SPAN_MS;
  const fires = schedule.between(from, to);
  const iso = (instant) => new Date(instant).toISOString();
  fires.forEach((fire, index) => {
    const before = fires[index - 1] ?? from;
    if (fire <= before) found.push(`${iso(fire)} does not come after ${iso(before)}`);
    // What a clock skips is not made up after a correction of three hours or more, nor for an expression with a
    // wildcard.
    const skipped = () => schedule.clockChanges(before, fire).some(({ kind }) => kind === 'skipped');
    if (fire - before > longestMs && !skipped()) found.push(`nothing from ${iso(before)} to ${iso(fire)}`);
    if (fire % 1000 !== 0) found.push(`${fire} is no whole second`);
  });
  if (to - (fires.at(-1) ?? from) > longestMs) found.push(`nothing after ${iso(fires.at(-1) ?? from)}`);
  if (schedule.countBetween(from, to) !== fires.length)
    found.push(`counted ${schedule.countBetween(from, to)}, found ${fires.length}`);
  const back = [];
  for (
    let fire = schedule.previousBefore(to + 1);
    fire !== null && fire > from && back.length <= fires.length;
    fire = schedule.previousBefore(fire)
  )
    back.push(fire);
  if (String(back.reverse()) !== String(fires)) found.push('other fire times backwards');
  for (let start = from; start < to; start += 37 * HOUR_MS) {
    const next = schedule.nextAfter(start);
    if (next <= to && next !== fires.find((fire) => fire > start)) found.push(`another next after ${iso(start)}`);
  }
  return { fires: fires.length, found };
}
