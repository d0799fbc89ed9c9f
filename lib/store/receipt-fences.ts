import { receiptLockKey } from './receipt-lock.js';
import type { Tables } from './tables.js';

const PARAMETERS = '(its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text)';

/**
 * The statements that make the fences of receipts. They are functions because a session plans those once: every receipt
 * passes two of them, and planning is most of what one of these looks costs. True while the attempt owns the run.
 */
export function createReceiptFences({ schema, jobRuns, receiptMayBegin, receiptMayEnd }: Tables): string[] {
  const owned = `
       where  job_name = its_job
       and    fire_time = its_fire_time
       and    status = 'running'
       and    attempt = its_attempt
       and    claimed_by = its_instance
       and    lease_until > clock_timestamp()`;
  const fence = (name: string, look: string) =>
    `create or replace function ${name} ${PARAMETERS} returns boolean language plpgsql set plan_cache_mode = force_generic_plan as $fence$
     begin
       ${look};
       return found;
     end $fence$`;
  return [
    fence(receiptMayBegin, `perform pg_advisory_xact_lock_shared(${receiptLockKey(schema, 'its_job', 'its_fire_time', 'its_attempt')})\n       from   ${jobRuns} ${owned}`),
    fence(receiptMayEnd, `perform\n       from   ${jobRuns} ${owned}\n       for    key share`),
  ];
}
