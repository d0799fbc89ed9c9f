import { createHash } from 'node:crypto';
import { quoteIdentifier } from '../../migrations/frozen.js';
import type { Statement } from './transactions.js';
import type { Query } from './query.js';

/**
 * The channel of all instances on one schema: a name that fits (63 bytes), and needs no quotes, whatever the schema's
 * is.
 */
export function wakeUpChannel(schema: string): string {
  return `nestjs_distributed_cron_${createHash('sha256').update(schema).digest('hex').slice(0, 16)}`;
}

/** The qualified, quoted names of the library's tables in one schema. */
export class Tables {
  readonly jobSchedule: string;
  readonly jobRuns: string;
  readonly receipts: string;
  readonly receiptSecret: string;
  readonly jobPages: string;
  readonly jobInstances: string;
  readonly jobActions: string;
  readonly jobFlags: string;
  readonly jobAlerts: string;
  readonly jobBackfills: string;
  /** The channel on which instances wake each other up. */
  readonly wakeUps: string;

  /** @param schema as configured, not quoted */
  constructor(readonly schema: string) {
    this.jobSchedule = this.qualify('job_schedule');
    this.jobRuns = this.qualify('job_runs');
    this.receipts = this.qualify('receipts');
    this.receiptSecret = this.qualify('receipt_secret');
    this.jobPages = this.qualify('job_pages');
    this.jobInstances = this.qualify('job_instances');
    this.jobActions = this.qualify('job_actions');
    this.jobFlags = this.qualify('job_flags');
    this.jobAlerts = this.qualify('job_alerts');
    this.jobBackfills = this.qualify('job_backfills');
    this.wakeUps = wakeUpChannel(schema);
  }

  /** A quoted name in this schema. */
  qualify(name: string): string {
    return `${quoteIdentifier(this.schema)}.${quoteIdentifier(name)}`;
  }

  /** A statement that calls a function of this schema. */
  calling(name: string, values: Statement['values']): Statement {
    return {
      text: `select * from ${this.qualify(name)}(${values.map((_, index) => `$${index + 1}`).join(', ')})`,
      values,
    };
  }
}

/**
 * What another instance has made due, so that others need not wait for their next poll. `runs`: something waits that may
 * start now. `jobs`: a schedule or a flag has changed, or there is a backfill. `told`: a handler is to be told to stop.
 */
export type WakeUp = 'runs' | 'jobs' | 'told';

/**
 * SQL that has every instance look at once, when the transaction commits. A hint, that may be lost: they look at their
 * next poll in any case. For what somebody waits for; never where occurrences are claimed and ended, for commits that
 * notify wait for each other, all over the database server.
 */
export function wakingUp({ wakeUps }: Tables, what: 'runs' | 'jobs'): string {
  return `pg_notify('${wakeUps}', '${what}')`;
}

/** Has every instance look at once, when the transaction commits. */
export async function wakeUp(query: Query, tables: Tables, what: 'runs' | 'jobs'): Promise<void> {
  await query(`select ${wakingUp(tables, what)}`);
}
