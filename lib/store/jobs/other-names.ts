import { standingOf, type Standing } from '../../domain/missed/backfill.js';
import type { RunStatus } from '../../domain/runs/run.js';
import type { Query } from '../connection/query.js';
import type { Tables } from '../tables.js';

/** Of one occurrence that has rows under several names, the last of these. */
const COUNTS: readonly Standing[] = ['never ran', 'ran', 'under way'];

/**
 * Where occurrences stand that have a row under a name that the job had before, by fire time in milliseconds. Those names
 * all yield to the one that holds now.
 */
export async function standingsElsewhere(
  query: Query,
  { jobRuns, jobSchedule }: Tables,
  jobName: string,
  from: Date,
  to: Date,
): Promise<Map<number, Standing>> {
  const rows = await query<{ fire_time: Date; status: RunStatus; attempt: number }>(
    `select run.fire_time, run.status, run.attempt
     from   ${jobSchedule} former
     join   ${jobRuns} run on run.job_name = former.name
     where  former.yields_to = $1
     and    run.fire_time between $2 and $3`,
    [jobName, from.toISOString(), to.toISOString()],
  );
  const standings = new Map<number, Standing>();
  for (const row of rows) {
    const at = row.fire_time.getTime();
    const [known, standing] = [standings.get(at) ?? 'never ran', standingOf(row)];
    standings.set(at, COUNTS.indexOf(standing) > COUNTS.indexOf(known) ? standing : known);
  }
  return standings;
}
