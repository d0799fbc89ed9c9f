import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { ALERT_SEVERITIES } from '../../lib/options/alert-options.js';
import { TROUBLES } from '../../lib/errors/database-trouble.js';
import { FIRST_STATES, RUN_MOVES } from '../support/run-moves.js';
import { RUN_STATES } from '../support/run-rows.js';
import { SchedulerService } from '../../lib/operations/scheduler.service.js';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const PAGE = read('docs/runs.md');
const TABLES = [PAGE, read('docs/alerts.md'), read('docs/troubleshooting.md')].join('\n\n');

/** The rows below a heading, cell by cell. */
function table(firstHeading: string): string[][] {
  const block = TABLES.split(/\n\n/).find((text) => text.startsWith(`| ${firstHeading} |`))!;
  return block
    .trim()
    .split('\n')
    .slice(2)
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );
}

const code = (cell: string) => cell.replaceAll('`', '');
const by = (verbs: readonly string[]) => `(${verbs.join(', ')})`;

describe('docs/runs.md', () => {
  it.each(RUN_STATES)('says how a run becomes %s, and what becomes of it', (status) => {
    const row = table('state').find(([state]) => code(state!) === status)!;
    const first = FIRST_STATES.filter((one) => one.status === status).map((one) => `new ${by(one.by)}`);
    const waysIn = RUN_MOVES.filter(({ to }) => to === status).map((move) => `${move.from} ${by(move.by)}`);
    const waysOut = RUN_MOVES.filter(({ from }) => from === status).map((move) => `${move.to} ${by(move.by)}`);
    expect(row.slice(2, 4)).toEqual([[...first, ...waysIn].join('; '), waysOut.join('; ')]);
  });

  it('has a row for each state, and a line for each verb', () => {
    expect(table('state').map(([state]) => code(state!))).toEqual(RUN_STATES);
    const verbs = new Set([...FIRST_STATES, ...RUN_MOVES].flatMap((one) => one.by));
    expect(
      table('verb')
        .map(([verb]) => verb)
        .sort(),
    ).toEqual([...verbs].sort());
  });

  it('draws every move, and no other', () => {
    const drawn = [...PAGE.matchAll(/^ {2}(\S+) --> (\S+): (.+)$/gm)].map(
      ([, from, to, verbs]) => `${from} ${to}: ${verbs}`,
    );
    const moves = [
      ...FIRST_STATES.map((first) => `[*] ${first.status}: ${first.by.join(', ')}`),
      ...RUN_MOVES.map(({ from, to, by: verbs }) => `${from} ${to}: ${verbs.join(', ')}`),
    ];
    expect(drawn.sort()).toEqual(moves.sort());
  });
});

describe('docs/troubleshooting.md and docs/alerts.md', () => {
  it('says what each trouble with the database is, and whether it passes', () => {
    const rows = TROUBLES.map(([kind, passing, codes, , advice]) => [
      kind,
      codes.map((one) => `\`${one.length === 2 ? `${one}…` : one}\``).join(', '),
      passing ? 'yes' : 'no',
      advice,
    ]);
    expect(table('trouble')).toEqual(rows);
  });

  it('has every kind of alert, with its severity', () => {
    expect(table('alert').map(([kind, severity]) => [code(kind!), severity])).toEqual(Object.entries(ALERT_SEVERITIES));
  });
});

describe('README', () => {
  it('draws every state of a run', () => {
    const [, drawing] = read('README.md').match(/## The life of a run\n\n```\n([^]*?)```/)!;
    for (const status of RUN_STATES) expect(drawing).toMatch(new RegExp(`\\b${status}\\b`));
  });

  it('has people act by verbs that there are, which are recorded, and not by SQL', () => {
    const page = read('README.md');
    const verbs = [...page.matchAll(/\bscheduler\.(\w+)\(/g)].map(([, verb]) => verb);
    expect(verbs).toEqual(expect.arrayContaining(['replay', 'pause', 'resume', 'backfill']));
    for (const verb of verbs) expect(SchedulerService.prototype).toHaveProperty(verb!, expect.any(Function));
    expect(page).not.toMatch(/^\s*(update|delete from|insert into) /m);
  });
});
