import { fireTimesBetween } from 'nestjs-distributed-cron';
import type { ExpectedJob } from '../jobs.js';
import { isOpen, startsOf, type RunRow } from './runs.js';
import type { Window } from './window.js';

/** What became of one job's due occurrences. */
export interface JobCount {
  readonly job: string;
  readonly due: number;
  readonly done: number;
  /** Recorded and not run, because the run before was still going on. */
  readonly overlapped: number;
  /** Recorded and not run, because nobody was there in time. */
  readonly missed: number;
  readonly dead: number;
  readonly unfinished: number;
  /** Due, and no row says what became of it. */
  readonly undecided: number;
  /** Rows for instants at which nothing was due. */
  readonly madeUp: number;
  /** Attempts that started before their fire time. */
  readonly early: number;
  readonly attempts: number;
  readonly failures: number;
  readonly takenOver: number;
}

/** Compares what the expressions say with what the table says. */
export function countOccurrences(
  expected: readonly ExpectedJob[],
  window: Window,
  runs: readonly RunRow[],
): JobCount[] {
  return expected.map(({ job, cron }) => {
    const due = fireTimesBetween(cron, { timeZone: 'UTC', ...window });
    return countJob(
      job,
      due,
      runs.filter((run) => run.job === job),
    );
  });
}

function countJob(job: string, due: readonly Date[], runs: readonly RunRow[]): JobCount {
  const decided = due.map((fireTime) => runs.find((run) => covers(run, fireTime)) ?? null);
  const earlier = runs.flatMap((run) => run.earlier);
  const dueTimes = new Set(due.map(Number));
  return {
    job,
    due: due.length,
    done: decided.filter((run) => run?.status === 'done').length,
    overlapped: decided.filter((run) => run?.reason === 'overlap').length,
    missed: decided.filter((run) => run?.status === 'skipped' && run.reason?.startsWith('missed')).length,
    dead: decided.filter((run) => run?.status === 'dead').length,
    unfinished: decided.filter((run) => run !== null && isOpen(run)).length,
    undecided: decided.filter((run) => run === null).length,
    madeUp: runs.filter((run) => run.gapFrom === null && !dueTimes.has(run.fireTime.getTime())).length,
    early: runs.flatMap((run) => startsOf(run).filter(({ startedAt }) => startedAt < run.fireTime)).length,
    attempts: runs.reduce((sum, { attempt }) => sum + attempt, 0),
    failures: earlier.filter(({ status }) => status === 'failed').length,
    takenOver: earlier.filter(({ status }) => status === 'orphaned').length,
  };
}

function covers({ fireTime, gapFrom }: RunRow, instant: Date): boolean {
  return (gapFrom ?? fireTime) <= instant && instant <= fireTime;
}
