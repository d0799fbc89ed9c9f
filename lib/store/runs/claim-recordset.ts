import { sparse } from '../connection/sparse.js';
import type { DueOccurrence, WaitingRun } from './claim-candidates.js';

/** What {@link recordset} reads of a candidate: as little text as says it, for it crosses to the database at every claim. */
export function given(candidate: DueOccurrence | WaitingRun): object {
  const { startsAt, byHand, ...facts } = { startsAt: null, byHand: false, ...candidate };
  return sparse({ ...facts, startsAt: startsAt?.getTime() === candidate.fireTime.getTime() ? null : startsAt, byHand: byHand || null });
}

/** The candidates of a claim as a table: property by property, as they are named in TypeScript. */
export function recordset(candidates: string, alias: string): string {
  return `(select "jobName" as job_name, "fireTime" as fire_time, coalesce("startsAt", "fireTime") as starts_at, cron, "timeZone" as time_zone, calendar, attempt, overlap,
                  parallel, "queueLimit" as queue_limit, "group" as concurrency_group, "groupLimit" as group_limit,
                  "leaseMs" as lease_ms, "placeNeededAt" as place_needed_at, coalesce("byHand", false) as by_hand, flag, off,
                  delivery is not null as delivered, delivery ->> 'by' as delivered_by, nullif(delivery -> 'data', 'null') as delivered_data
           from   jsonb_to_recordset(${candidates})
                    as given ("jobName" text, "fireTime" timestamptz, "startsAt" timestamptz, cron text, "timeZone" text, calendar text,
                              attempt integer, overlap text, parallel integer, "queueLimit" integer, "group" text, "groupLimit" integer,
                              "leaseMs" integer, "placeNeededAt" timestamptz, "byHand" boolean, flag text, off text, delivery jsonb)) ${alias}`;
}
