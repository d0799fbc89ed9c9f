import type { Tables } from '../tables.js';

/**
 * SQL for the backfill that a run belongs to once a person has replayed it: none while that is active, or whoever cancels the
 * backfill would undo what the person wanted. One that is over counts how the run ends.
 * @param run SQL for the run's row
 */
export function leftBackfill({ jobBackfills }: Tables, run: string): string {
  return `case when not exists (
              select from ${jobBackfills} active
              where  active.id = ${run}.backfill_id
              and    active.finished_at is null
              and    active.cancelled_at is null) then ${run}.backfill_id end`;
}
