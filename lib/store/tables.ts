import type { QueryRunner } from 'typeorm';
import { wakeUpChannel } from './wake-up-channel.js';

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
  /** The function behind the trigger of `job_schedule`. */
  readonly keepHolds: string;
  readonly jobBackfills: string;
  /** The function behind the triggers of `job_runs`. */
  readonly refuseMove: string;
  /** The channel on which instances wake each other up. */
  readonly wakeUps: string;
  /** The functions that say whether a run is still owned: before an effect, and after it. */
  readonly receiptMayBegin: string;
  readonly receiptMayEnd: string;
  /** The functions that write one receipt, and end it, if the run is. */
  readonly receiptBegin: string;
  readonly receiptEnd: string;

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
    this.keepHolds = this.qualify('job_schedule_keep_holds');
    this.jobBackfills = this.qualify('job_backfills');
    this.refuseMove = this.qualify('job_runs_refuse_move');
    this.wakeUps = wakeUpChannel(schema);
    this.receiptMayBegin = this.qualify('receipts_may_begin');
    this.receiptMayEnd = this.qualify('receipts_may_end');
    this.receiptBegin = this.qualify('receipts_begin');
    this.receiptEnd = this.qualify('receipts_end');
  }

  /** The tables in the given schema, or in the default one of the data source that runs the statement. */
  static of(queryRunner: QueryRunner, schema?: string): Tables {
    const options = queryRunner.connection.options as { schema?: string };
    return new Tables(schema ?? options.schema ?? 'public');
  }

  /** A quoted name in this schema. */
  qualify(name: string): string {
    return `${quoteIdentifier(this.schema)}.${quoteIdentifier(name)}`;
  }
}

/** The name as SQL reads it, whatever is in it: in double quotes, with those in it doubled. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Creates the schema where it is missing. Asks first: `create schema if not exists` needs a right it may have no use for. */
export async function ensureSchema(queryRunner: QueryRunner, schema: string): Promise<void> {
  const schemas = (await queryRunner.query('select from pg_namespace where nspname = $1', [schema])) as unknown[];
  if (schemas.length === 0) await queryRunner.query(`create schema ${quoteIdentifier(schema)}`);
}
