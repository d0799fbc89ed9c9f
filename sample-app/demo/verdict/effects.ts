import type { Database } from '../database.js';
import { MAILING } from '../jobs.js';
import type { MailServer } from '../mail-server.js';
import { CUSTOMERS } from '../seed.js';
import { startsOf, type RunRow } from './runs.js';
import type { Window } from './window.js';

/** How often an effect happened, against how often it had to: once for each customer of each mailing that was done. */
export interface EffectCount {
  readonly expected: number;
  /** Different ones. */
  readonly found: number;
  readonly doubled: number;
  readonly lost: number;
}

export interface Effects {
  readonly statements: EffectCount;
  readonly mails: EffectCount;
  /** Mails that came again under the same Message-ID. */
  readonly resent: number;
  /** Statements that a later attempt came to and did not write again, because of the receipt. */
  readonly prevented: number;
  /** Statements and receipts that a former owner wrote after the next attempt had begun. */
  readonly late: number;
}

interface Written {
  readonly effect?: string;
  readonly customer: number;
  readonly fireTime: Date;
  readonly attempt: number;
  readonly at: Date;
}

export async function countEffects(
  database: Database,
  server: MailServer,
  { from, to }: Window,
  runs: readonly RunRow[],
): Promise<Effects> {
  const { dataSource, schema } = database;
  const statements: Written[] = await dataSource.query(
    `select customer_id as customer, fire_time as "fireTime", attempt, issued_at as at from ${schema}.statements where fire_time > $1 and fire_time <= $2`,
    [from, to],
  );
  const receipts: Written[] = await dataSource.query(
    `select entity::integer as customer, effect, fire_time as "fireTime", attempt, created_at as at
     from   ${schema}.receipts
     where  job_name = $3 and fire_time > $1 and fire_time <= $2`,
    [from, to, MAILING],
  );
  const mailings = runs.filter(({ job }) => job === MAILING);
  const expected = new Set(mailings.filter(({ status }) => status === 'done').flatMap(({ fireTime }) => all(fireTime)));
  const inWindow = (iso: string) => new Date(iso) > from && new Date(iso) <= to;
  const byTime = new Map(mailings.map((run) => [run.fireTime.getTime(), run]));
  const laterStarts = ({ fireTime, attempt }: Written) => {
    const run = byTime.get(fireTime.getTime());
    return run ? startsOf(run).filter((start) => start.attempt > attempt) : [];
  };
  return {
    statements: count(
      expected,
      statements.map(({ customer, fireTime }) => key(customer, fireTime.toISOString())),
    ),
    mails: count(
      expected,
      server.kept.filter((mail) => inWindow(mail.fireTime)).map((mail) => key(mail.customerId, mail.fireTime)),
    ),
    resent: server.dropped.filter((mail) => inWindow(mail.fireTime)).length,
    prevented: receipts.filter((receipt) => receipt.effect !== 'mail' && laterStarts(receipt).length > 0).length,
    late: [...statements, ...receipts].filter((one) => laterStarts(one).some(({ startedAt }) => startedAt < one.at))
      .length,
  };
}

function count(expected: ReadonlySet<string>, happened: readonly string[]): EffectCount {
  const found = new Set(happened);
  return {
    expected: expected.size,
    found: found.size,
    doubled: happened.length - found.size,
    lost: [...expected].filter((one) => !found.has(one)).length,
  };
}

function all(fireTime: Date): string[] {
  return Array.from({ length: CUSTOMERS }, (_, index) => key(index + 1, fireTime.toISOString()));
}

function key(customer: number, fireTime: string): string {
  return `${customer} of ${fireTime}`;
}
