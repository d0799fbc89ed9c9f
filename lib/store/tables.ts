import { quoteIdentifier } from '../../migrations/frozen.js';
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
  readonly jobBackfills: string;
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
    this.jobBackfills = this.qualify('job_backfills');
    this.wakeUps = wakeUpChannel(schema);
    this.receiptMayBegin = this.qualify('receipt_may_begin_1');
    this.receiptMayEnd = this.qualify('receipt_may_end_1');
    this.receiptBegin = this.qualify('receipt_begin_1');
    this.receiptEnd = this.qualify('receipt_end_1');
  }

  /** A quoted name in this schema. */
  qualify(name: string): string {
    return `${quoteIdentifier(this.schema)}.${quoteIdentifier(name)}`;
  }
}
