import type { EffectCount } from '../verdict/effects.js';
import type { JobCount } from '../verdict/occurrences.js';
import type { Verdict } from '../verdict/verdict.js';
import { clock, type Colors } from './style.js';

type Row = readonly (string | number)[];

/** The verdict, for people. */
export function drawVerdict(verdict: Verdict, colors: Colors): string[] {
  const { window, jobs, effects, takeOvers, doubts, guarantees } = verdict;
  return [
    '',
    colors.bold(
      `VERDICT, read from the database and the mail server, for ${clock(window.from)} to ${clock(window.to)}`,
    ),
    '',
    ...table(
      ['occurrences', 'due', 'done', 'overlap', 'missed', 'open', 'dead', 'attempts', 'failed', 'taken over'],
      jobs.map(jobRow),
    ),
    '',
    ...table(
      ['effects', 'expected', 'found', 'doubled', 'lost', 'prevented', 'resent'],
      [
        effectRow('statements', effects.statements, effects.prevented, '-'),
        effectRow('mails', effects.mails, '-', effects.resent),
      ],
    ),
    '',
    ...table(
      ['take-overs', 'of', 'struck', 'by', 'attempt', 'seconds'],
      takeOvers.map(({ job, fireTime, from, struck, by, attempt, seconds }) => [
        job,
        clock(new Date(fireTime)),
        `${from} ${struck}`,
        by,
        attempt,
        seconds.toFixed(1),
      ]),
    ),
    '',
    ...table(
      ['mails in doubt', 'of', 'sent by', 'attempt', 'mail server', 'receipt', 'because'],
      doubts.map(({ customer, fireTime, from, attempt, taken, decided, reason }) => [
        `customer ${customer}`,
        clock(fireTime),
        from,
        attempt,
        taken ? 'has it' : 'has it not',
        decided ?? 'in doubt',
        reason ?? '-',
      ]),
    ),
    '',
    'Guaranteed: a statement is written exactly once (its receipt is in the same transaction). A mail leaves',
    'the database: its receipt is opened before it and closed after it, and one that was cut off in between is',
    'in doubt. This job parks it for a person instead of sending it twice; another may have it sent again.',
    '',
    ...guarantees.map(
      ({ claim, held, evidence }) =>
        `${held ? colors.green('✔') : colors.red('✖')} ${claim} ${colors.dim(`(${evidence})`)}`,
    ),
    '',
    verdict.held ? colors.green('Every guarantee held.') : colors.red(`Not held: ${verdict.broken.join(' ')}`),
  ];
}

function jobRow(job: JobCount): Row {
  return [
    job.job,
    job.due,
    job.done,
    job.overlapped,
    job.missed,
    job.unfinished + job.undecided,
    job.dead,
    job.attempts,
    job.failures,
    job.takenOver,
  ];
}

function effectRow(
  name: string,
  { expected, found, doubled, lost }: EffectCount,
  prevented: Row[number],
  resent: Row[number],
): Row {
  return [name, expected, found, doubled, lost, prevented, resent];
}

/** The first column to the left, the others to the right. */
function table(head: Row, rows: readonly Row[]): string[] {
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => String(row[column]).length)));
  const draw = (row: Row) =>
    row
      .map((cell, column) => (column === 0 ? String(cell).padEnd(widths[0]!) : String(cell).padStart(widths[column]!)))
      .join('  ')
      .trimEnd();
  return [draw(head), widths.map((width) => '─'.repeat(width)).join('  '), ...rows.map(draw)];
}
