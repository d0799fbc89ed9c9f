import { LEASE_MS } from '../../src/schedules.js';
import type { Database } from '../database.js';
import { BALANCES, BANK, REPORT } from '../jobs.js';
import type { RunRow } from './runs.js';
import type { Window } from './window.js';

/** How the jobs that show one thing each did. */
export interface Peculiar {
  readonly report: {
    readonly done: number;
    readonly keptItsRun: number;
    readonly rows: number;
    readonly shortestBlockMs: number | null;
  };
  readonly bank: { readonly done: number; readonly atThirdAttempt: number; readonly rows: number };
  /** Refreshes that were missed; `caughtUp`: and run later all the same. */
  readonly cache: { readonly skippedRows: number; readonly caughtUp: number };
}

export async function lookAtPeculiarJobs(
  { dataSource, schema }: Database,
  { from, to }: Window,
  runs: readonly RunRow[],
): Promise<Peculiar> {
  const done = (job: string) => runs.filter((run) => run.job === job && run.status === 'done');
  const cache = runs.filter(({ job }) => job === BALANCES);
  const [reports] = (await dataSource.query(
    `select count(*)::integer as rows, min(blocked_ms) as shortest from ${schema}.receivables_reports where fire_time > $1 and fire_time <= $2`,
    [from, to],
  )) as [{ rows: number; shortest: number | null }];
  const [imports] = (await dataSource.query(
    `select count(*)::integer as rows from ${schema}.bank_imports where fire_time > $1 and fire_time <= $2`,
    [from, to],
  )) as [{ rows: number }];
  return {
    report: {
      done: done(REPORT).length,
      keptItsRun: done(REPORT).filter(
        ({ attempt, startedAt, finishedAt }) => attempt === 1 && Number(finishedAt) - Number(startedAt) > LEASE_MS,
      ).length,
      rows: reports.rows,
      shortestBlockMs: reports.shortest,
    },
    bank: {
      done: done(BANK).length,
      atThirdAttempt: done(BANK).filter(
        ({ earlier }) => earlier.filter(({ status }) => status === 'failed').length >= 2,
      ).length,
      rows: imports.rows,
    },
    cache: {
      skippedRows: cache.filter(({ reason }) => reason === 'missed: skipped').length,
      caughtUp: cache.filter(({ trigger, attempt }) => trigger === 'catch-up' && attempt > 0).length,
    },
  };
}
