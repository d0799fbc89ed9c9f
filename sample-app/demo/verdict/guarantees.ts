import { LEASE_MS } from '../../src/schedules.js';
import type { Strike } from '../disasters.js';
import type { Doubt } from '../doubts.js';
import type { EffectCount, Effects } from './effects.js';
import type { Peculiar } from './jobs-of-their-own.js';
import type { JobCount } from './occurrences.js';
import { TAKE_OVER_WITHIN_S, type TakeOver } from './takeovers.js';

/** One thing that is promised, and what was found. What was not seen happening does not count as held. */
export interface Guarantee {
  readonly claim: string;
  readonly held: boolean;
  readonly evidence: string;
}

export interface Findings {
  readonly jobs: readonly JobCount[];
  readonly effects: Effects;
  readonly peculiar: Peculiar;
  readonly strikes: readonly Strike[];
  /** One for each strike. */
  readonly takeOvers: readonly (TakeOver | null)[];
  readonly doubts: readonly Doubt[];
  readonly unexpectedEnds: readonly string[];
}

export function judge({ jobs, effects, peculiar, strikes, takeOvers, doubts, unexpectedEnds }: Findings): Guarantee[] {
  return [
    ...occurrences(jobs),
    takenOver(strikes, takeOvers),
    ...once(effects),
    inDoubt(strikes, doubts),
    ...peculiarities(peculiar),
    alive(unexpectedEnds),
  ];
}

function occurrences(jobs: readonly JobCount[]): Guarantee[] {
  const sum = (what: Exclude<keyof JobCount, 'job'>) => jobs.reduce((total, job) => total + job[what], 0);
  return [
    {
      claim: 'Every due occurrence has exactly one row that says what became of it',
      held: jobs.every((job) => job.due > 0) && sum('undecided') === 0 && sum('madeUp') === 0,
      evidence: `${sum('due')} due, ${sum('undecided')} without a row, ${sum('madeUp')} rows for nothing due`,
    },
    {
      claim: 'None started before its time',
      held: sum('early') === 0,
      evidence: `${sum('early')} of ${sum('attempts')} attempts`,
    },
    {
      claim: 'Whatever was started came to its end',
      held: sum('unfinished') === 0 && sum('dead') === 0,
      evidence: `${sum('done')} done, ${sum('unfinished')} unfinished, ${sum('dead')} dead`,
    },
  ];
}

function takenOver(strikes: readonly Strike[], takeOvers: readonly (TakeOver | null)[]): Guarantee {
  const told = strikes.map(({ kind, replica }, index) => {
    const found = takeOvers[index];
    return found
      ? `${kind} ${replica} by ${found.by} after ${found.seconds.toFixed(1)} s`
      : `nobody took over from ${kind} ${replica}`;
  });
  const kinds = new Set(strikes.map(({ kind }) => kind));
  return {
    claim: `Killed and frozen replicas were replaced within ${TAKE_OVER_WITHIN_S} s`,
    held:
      kinds.size === 2 &&
      takeOvers.every((found) => found !== null && found !== undefined && found.seconds <= TAKE_OVER_WITHIN_S),
    evidence: told.join(', ') || 'none was struck',
  };
}

function once({ statements, mails, resent, prevented, late }: Effects): Guarantee[] {
  return [
    {
      claim: 'The frozen replica changed nothing once it was replaced',
      held: late === 0,
      evidence: `${late} late writes`,
    },
    {
      claim: 'Each statement was written exactly once',
      held: isExact(statements),
      evidence: `${told(statements)}, ${prevented} found there by a later attempt`,
    },
    {
      claim: 'Each mail arrived, and none was sent twice',
      held: isExact(mails) && resent === 0,
      evidence: `${told(mails)}, ${resent} came again`,
    },
  ];
}

/** The one that the kill cut off; a freeze may have hit another. */
function inDoubt(strikes: readonly Strike[], doubts: readonly Doubt[]): Guarantee {
  const killed = strikes.find(({ kind }) => kind === 'killed');
  const cutOff = doubts.filter(({ fireTime }) => fireTime.toISOString() === killed?.fireTime);
  const each = doubts.map(
    ({ customer, taken, decided }) =>
      `customer ${customer}: ${taken ? 'it had been taken' : 'it had not'}, decided as ${decided ?? 'nothing'}`,
  );
  return {
    claim: 'The mail that the kill cut off waited in doubt for a person, and nobody sent it again',
    held:
      cutOff.length === 1 &&
      cutOff[0]!.taken &&
      doubts.every(({ decided, taken }) => decided === 'done' || (decided !== null && !taken)),
    evidence: `${doubts.length} in doubt${each.length > 0 ? `; ${each.join('; ')}` : ''}`,
  };
}

function isExact({ expected, found, doubled, lost }: EffectCount): boolean {
  return expected > 0 && found === expected && doubled === 0 && lost === 0;
}

function told({ expected, found, doubled, lost }: EffectCount): string {
  return `${found} of ${expected}, ${doubled} doubled, ${lost} lost`;
}

function peculiarities({ report, bank, cache }: Peculiar): Guarantee[] {
  return [
    {
      claim: `The report blocked the event loop for longer than its lease (${LEASE_MS / 1_000} s) and kept its run`,
      held:
        report.done > 0 &&
        report.keptItsRun === report.done &&
        report.rows === report.done &&
        (report.shortestBlockMs ?? 0) > LEASE_MS,
      evidence: `${report.keptItsRun} of ${report.done} in one attempt, ${((report.shortestBlockMs ?? 0) / 1_000).toFixed(1)} s`,
    },
    {
      claim: 'The bank import failed twice and then worked',
      held: bank.done > 0 && bank.atThirdAttempt === bank.done && bank.rows === bank.done,
      evidence: `${bank.atThirdAttempt} of ${bank.done}, ${bank.rows} imported`,
    },
    {
      claim: 'The cache refresh skipped what it missed while all replicas were frozen',
      held: cache.skippedRows > 0 && cache.caughtUp === 0,
      evidence: `gaps recorded: ${cache.skippedRows}, run late: ${cache.caughtUp}`,
    },
  ];
}

function alive(unexpectedEnds: readonly string[]): Guarantee {
  return {
    claim: 'No replica ended by itself',
    held: unexpectedEnds.length === 0,
    evidence: unexpectedEnds.length === 0 ? 'none did' : unexpectedEnds.join('; '),
  };
}
