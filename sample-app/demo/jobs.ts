import { cronsOf } from '../src/schedules.js';

/** The jobs as the demo expects them: names and expressions, not what the scheduler's tables say about them. */
export const MAILING = 'customer-statements';
export const REPORT = 'receivables-report';
export const BANK = 'bank-import';
export const BALANCES = 'balance-cache';

export interface ExpectedJob {
  readonly job: string;
  readonly cron: string;
}

/** @param phase what the replicas got as `SCHEDULE_PHASE` */
export function expectedJobs(phase: number): ExpectedJob[] {
  const { statements, report, bank, balances } = cronsOf(phase);
  return [
    { job: MAILING, cron: statements },
    { job: REPORT, cron: report },
    { job: BANK, cron: bank },
    { job: BALANCES, cron: balances },
  ];
}
