import { fireTimesBetween } from '../../../lib/cron/schedule.js';
import type { TestDatabase } from '../../support/database.js';

/**
 * The fire times of a job since its schedule holds, up to its watermark in the database, that no row decides: neither
 * one of its own nor one of a gap.
 */
export async function holesOf(database: TestDatabase, jobName: string): Promise<{ checked: number; holes: string[] }> {
  const [schedule] = await database.query<{
    cron: string;
    time_zone: string;
    effective_from: Date;
    decided_until: Date;
  }>('select cron, time_zone, effective_from, decided_until from job_schedule where name = $1', [jobName]);
  const { cron, time_zone: timeZone, effective_from: from, decided_until: to } = schedule!;
  const rows = await database.query<{ first: Date; last: Date }>(
    'select coalesce(gap_from, fire_time) as first, fire_time as last from job_runs where job_name = $1',
    [jobName],
  );
  const due = fireTimesBetween(cron, { timeZone, jobName, from, to });
  const holes = due.filter((fireTime) => !rows.some(({ first, last }) => first <= fireTime && fireTime <= last));
  return { checked: due.length, holes: holes.map((fireTime) => fireTime.toISOString()) };
}
