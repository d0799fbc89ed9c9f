import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { Temporal } from 'temporal-polyfill';
import { planCatchUp, type CatchUpPlan, type HeldSpan } from '../../lib/catch-up/catch-up.js';
import { jitterDelay } from '../../lib/jobs/job-cursors.js';
import { compileSchedule, nextFireTimes } from '../../lib/cron/schedule.js';
import { timeZoneOf } from '../../lib/cron/time-zone.js';
import { clockChangeLine } from '../../lib/observe/job-wording.js';
import { resolveJob } from '../../lib/options/resolve-job.js';

interface Table {
  readonly head: string[];
  readonly rows: string[][];
}

const DAY_MS = 86_400_000;
const PAGES = ['time.md', 'clock-changes.md', 'overlap-missed-retries.md']
  .map((page) => readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8'))
  .join('\n\n');

/** A check of one kind of table, by its first and its last heading: what the row should say, and what it says. */
const CHECKS: Readonly<Record<string, (row: string[], table: Table) => [found: unknown, written: unknown]>> = {
  'expression … fires after 2026-01-01 00:00 (UTC)': ([expression, , fires]) => [
    nextFireTimes(code(expression), { timeZone: 'UTC', from: new Date('2026-01-01T00:00:00Z'), count: 3 })
      .map((date) => utc(date.getTime()))
      .join(', '),
    fires,
  ],
  'refused … because': ([expression, because]) => [messageOf(() => compileSchedule(code(expression), 'UTC')), because],
  "job name … `jitter: '1m'`": ([name, ...cells], { head }) => [
    [
      ...head.slice(1, -1).map((expression) => firstTime(code(expression), code(name))),
      `${jitterDelay(code(name), 60_000, DAY_MS)} ms`,
    ],
    cells,
  ],
  'time zone … refused with': ([zone, message]) => [messageOf(() => timeZoneOf(code(zone))), message],
  'zone … by': ([zone, change, clock, by]) => {
    const at = instant(change);
    const { startMs, offsetMs, offsetBeforeMs } = timeZoneOf(zone!).periodAt(at);
    const minutes = (offsetMs - offsetBeforeMs) / 60_000;
    const walls = [offsetBeforeMs, offsetMs].map((offset) => utc(at + offset)).join(' → ');
    return [
      [utc(startMs), walls, `${minutes < 0 ? '−' : '+'}${Math.abs(minutes)} min`],
      [change, clock, by],
    ];
  },
  'zone … why': ([zone, date, expression, fires]) => {
    const midnight = (days: number) =>
      Temporal.PlainDate.from(date!).add({ days }).toZonedDateTime({ timeZone: zone!, plainTime: '00:00' })
        .epochMilliseconds;
    const found = compileSchedule(code(expression), zone!).between(midnight(0) - 1, midnight(1) - 1);
    return [found.map(utc).join(', ') || 'none', fires];
  },
  'expression … said at a start on 2026-11-29': ([expression, zone, lines]) => {
    const schedule = compileSchedule(code(expression), zone!);
    const from = Date.parse('2026-11-29T00:00:00Z');
    const changes = schedule.clockChanges(from, from + 365 * DAY_MS).filter(({ surprising }) => surprising);
    const job = { ...jobOf('* * * * *', ''), name: 'job', schedule };
    return [changes.map((change) => clockChangeLine(job, change)).join('<br>') || 'nothing', lines];
  },
  'option … ': ([option, byDefault]) => [
    { ...policiesOf(''), implicit: [] },
    { ...policiesOf(`${code(option)}: ${code(byDefault)}`), implicit: [] },
  ],
  'expression … recorded, never run': (row, { head }) => {
    const cell = (heading: string) => row[head.indexOf(heading)]!;
    const job = jobOf(code(cell('expression')), code(cell('options')));
    const [from, now] = [inThatYear(cell('decided up to')), inThatYear(cell('back at'))];
    const held = head.includes('paused') ? pause(cell('decided up to').slice(0, 6), cell('paused')) : [];
    const plan = planCatchUp(job, { from, now, held }, []);
    const found = { 'caught up': listed(plan.run), 'recorded, never run': recorded(plan) };
    const late = head.includes('late, runs as usual')
      ? { 'late, runs as usual': listed(job.schedule.between(plan.decidedUntil, now)) }
      : {};
    return [
      { ...found, ...late },
      Object.fromEntries(Object.keys({ ...found, ...late }).map((heading) => [heading, cell(heading)])),
    ];
  },
};

/** Tables of words alone. */
const WORDS = [
  'field … also',
  ' … the clock shows the time twice',
  '`signal.reason` … the run ends as',
  'which clock is wrong … what happens',
];

describe('the pages about time', () => {
  const tables = tablesOf(PAGES);

  it('has every kind of table, and none that nobody checks', () => {
    const kinds = new Set(tables.map(kindOf));
    expect([...kinds].sort()).toEqual([...Object.keys(CHECKS), ...WORDS].sort());
  });

  const rows = tables
    .filter((table) => kindOf(table) in CHECKS)
    .flatMap((table) => table.rows.map((row): [string, string[], Table] => [row.join(' | '), row, table]));

  it.each(rows)('%s', (_, row, table) => {
    const [found, written] = CHECKS[kindOf(table)]!(row, table);
    expect(written).toEqual(found);
  });
});

function tablesOf(page: string): Table[] {
  const blocks = page.split(/\n\n/).filter((block) => block.startsWith('|'));
  return blocks.map((block) => {
    const [head, , ...rows] = block
      .trim()
      .split('\n')
      .map((line) =>
        line
          .slice(1, -1)
          .split('|')
          .map((cell) => cell.trim()),
      );
    return { head: head!, rows };
  });
}

function kindOf({ head }: Table): string {
  return `${head[0]} … ${head.at(-1)}`;
}

function code(cell: string | undefined): string {
  return cell!.replaceAll('`', '');
}

/** `2026-03-29 01:00`, with seconds where there are some. */
function utc(millis: number): string {
  return new Date(millis)
    .toISOString()
    .replace('T', ' ')
    .replace(/(:00)?\.000Z$/, '');
}

function instant(text: string | undefined): number {
  return Date.parse(`${text!.replace(' ', 'T')}Z`);
}

function inThatYear(text: string): number {
  return instant(`2026-${text}`);
}

function firstTime(expression: string, jobName: string): string {
  const [first] = nextFireTimes(expression, {
    timeZone: 'UTC',
    from: new Date('2026-01-01T00:00:00Z'),
    count: 1,
    jobName,
  });
  return utc(first!.getTime()).slice(11);
}

function jobOf(expression: string, options: string) {
  const pairs = [...options.matchAll(/(\w+): ('?)([^,']+)\2/g)].map(([, name, quoted, value]) => [
    name,
    quoted ? value : Number(value),
  ]);
  return resolveJob({
    expression,
    options: Object.fromEntries(pairs),
    defaultName: 'Docs.job',
    declaredBy: 'Docs.job',
    defaults: {},
  });
}

function policiesOf(options: string) {
  const { schedule, ...policies } = jobOf('* * * * *', options);
  return policies;
}

/** `04:30 to 06:30`, or `04:30, and lasts`. */
function pause(day: string, text: string): HeldSpan[] {
  const [since, until] = text.match(/\d\d:\d\d/g)!.map((time) => inThatYear(day + time));
  return [{ since: since!, until: until ?? Infinity, reason: 'paused' }];
}

function listed(fireTimes: readonly number[]): string {
  const short = fireTimes.map((fireTime) => utc(fireTime).slice(5));
  return short.length > 3 ? `${short.length}, from ${short[0]} to ${short.at(-1)}` : short.join(', ') || 'none';
}

function recorded({ record }: CatchUpPlan): string {
  const short = (millis: number) => utc(millis).slice(5);
  const rows = record.map(
    ({ from, until, count, reason }) => `${count} ${reason} (${short(from)}${count > 1 ? ` to ${short(until)}` : ''})`,
  );
  return rows.join('; ') || 'nothing';
}

function messageOf(action: () => unknown): string {
  try {
    action();
    return 'not refused';
  } catch (error) {
    return (error as Error).message;
  }
}
