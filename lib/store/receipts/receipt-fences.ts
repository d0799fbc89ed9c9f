import { ownersOf, type ReceiptOwner } from './receipt-owner.js';
import type { Tables } from '../tables.js';

const FENCE = 'its_job text, its_fire_time timestamptz, its_attempt integer, its_instance text, its_page text';

const GIVEN = ['its_job', 'its_fire_time', 'its_attempt', 'its_instance', 'its_page'] as const;
const KEY = 'its_entity text, its_effect text';

/**
 * The statements that make what every receipt asks before and after its effect. They are functions because a session plans
 * those once: planning is most of what a look at `job_runs`, with its partitions and their indexes, costs.
 */
export function createReceiptFences(tables: Tables): string[] {
  const { receipts, receiptMayBegin, receiptMayEnd, receiptBegin, receiptEnd } = tables;
  const { run, page } = ownersOf(tables, GIVEN);
  const eitherOf = (look: (owner: ReceiptOwner) => string) =>
    `if its_page is null then
         ${look(run)};
       else
         ${look(page)};
       end if;
       return found;`;
  const made = (name: string, parameters: string, body: string) =>
    `create or replace function ${name} (${parameters}) returns boolean language plpgsql set plan_cache_mode = force_generic_plan as $receipts$
     begin
       ${body}
     end $receipts$`;
  return [
    // The lock is taken before the receipt may have to wait for another: whoever takes the run over ends it.
    made(
      receiptMayBegin,
      FENCE,
      eitherOf(({ table, isOurs, lockKey }) => `perform pg_advisory_xact_lock_shared(${lockKey})
         from   ${table}
         where  ${isOurs}`),
    ),
    // The lock lets heartbeats pass: were it stronger, a process that is busy before its commit would hold up all its leases.
    made(
      receiptMayEnd,
      FENCE,
      eitherOf(({ table, isOurs }) => `perform
         from   ${table}
         where  ${isOurs}
         for    key share`),
    ),
    made(
      receiptBegin,
      `${FENCE}, ${KEY}, its_key text`,
      `insert into ${receipts} (job_name, fire_time, attempt, claimed_by, entity, effect, idempotency_key)
       select its_job, its_fire_time, its_attempt, its_instance, its_entity, its_effect, its_key
       where  ${receiptMayBegin}(${GIVEN.join(', ')})
       on     conflict (job_name, fire_time, entity, effect) do nothing;
       return found;`,
    ),
    made(
      receiptEnd,
      `${FENCE}, ${KEY}, its_result text`,
      `if its_result is not null then
         update ${receipts}
         set    result = its_result::jsonb
         where  job_name = its_job
         and    fire_time = its_fire_time
         and    entity = its_entity
         and    effect = its_effect;
       end if;
       return ${receiptMayEnd}(${GIVEN.join(', ')});`,
    ),
  ];
}
