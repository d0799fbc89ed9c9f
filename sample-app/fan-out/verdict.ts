import type { DataSource } from 'typeorm';
import { CUSTOMERS, PAGES, STATEMENT_RUN } from './statement-run.job.js';

/** What the database says in the end; what replicas told counts for nothing here. */
export interface Verdict {
  readonly held: boolean;
  readonly status: string;
  readonly pagesDone: number;
  readonly statements: number;
  readonly customers: number;
  /** Pages that the killed replica had in hand: another one has gone on with them. */
  readonly takenOver: number;
  /** By how many replicas pages were ended. */
  readonly replicas: number;
  readonly seconds: number;
}

export async function readVerdict(dataSource: DataSource): Promise<Verdict> {
  const [run] = await dataSource.query<{ status: string; seconds: number }[]>(
    `select status, extract(epoch from finished_at - started_at)::float8 as seconds from job_runs where job_name = $1`,
    [STATEMENT_RUN],
  );
  const [pages] = await dataSource.query<{ done: number; again: number; replicas: number }[]>(
    `select count(*) filter (where status = 'done')::integer as done,
            count(*) filter (where attempt > 1)::integer as again,
            count(distinct claimed_by)::integer as replicas
     from   job_pages
     where  job_name = $1`,
    [STATEMENT_RUN],
  );
  const [statements] = await dataSource.query<{ all: number; customers: number }[]>(
    `select count(*)::integer as all, count(distinct customer_id)::integer as customers from statements`,
  );
  const held =
    run!.status === 'done' &&
    pages!.done === PAGES &&
    statements!.all === CUSTOMERS &&
    statements!.customers === CUSTOMERS &&
    pages!.again > 0;
  return {
    held,
    status: run!.status,
    pagesDone: pages!.done,
    statements: statements!.all,
    customers: statements!.customers,
    takenOver: pages!.again,
    replicas: pages!.replicas,
    seconds: Math.round(run!.seconds * 10) / 10,
  };
}
