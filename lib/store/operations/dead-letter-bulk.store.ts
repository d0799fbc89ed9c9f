import type { RunKey } from '../../domain/runs/run.js';
import type { RunFilter } from '../../options/dead-letter-filter.js';
import type { Actor } from './dead-letter.store.js';
import { DIED_OF_PAGES, reopening } from '../pages/page-reopening.js';
import { isRemoved } from '../jobs/is-removed.js';
import { leftBackfill } from '../backfills/left-backfill.js';
import { queryOn, type Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { wakingUp } from '../wake-up.js';
import type { Tables } from '../tables.js';

/** What a filter found. */
export interface FoundRuns {
  /** The earliest fire times first. */
  readonly runs: readonly RunKey[];
  /** How many more there are. */
  readonly left: number;
}

/** What bulk verbs say of themselves in `job_actions.details`. */
type Details = Readonly<Record<string, unknown>>;

/**
 * What `DeadLetterStore` does to one run, done to many: each verb is one statement with a limit, that also records it for
 * each run. A run that somebody else changes right now is passed over.
 */
export class DeadLetterBulkStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** Those that {@link replayAll} or {@link discardAll} would change. */
  async find(filter: RunFilter, limit: number, verb: BulkVerb): Promise<FoundRuns> {
    const [row] = await this.query<FoundRow>(
      `with ${this.matching(verb)},
       changed as (
         select job_name, fire_time
         from   matching
         order  by fire_time, job_name
         limit  $6
       )
       ${FOUND}`,
      [...parametersOf(filter), limit],
    );
    return found(row!);
  }

  replayAll(filter: RunFilter, limit: number, actor: Actor, details: Details): Promise<FoundRuns> {
    return this.change('replay', filter, limit, actor, details);
  }

  discardAll(filter: RunFilter, limit: number, actor: Actor, details: Details): Promise<FoundRuns> {
    return this.change('discard', filter, limit, actor, details);
  }

  private async change(verb: BulkVerb, filter: RunFilter, limit: number, { by, reason }: Actor, details: Details): Promise<FoundRuns> {
    const { tables } = this.database;
    const { jobRuns, jobActions } = tables;
    const [row] = await this.query<FoundRow>(
      `with ${this.matching(verb)},
       picked as (
         select job_name, fire_time
         from   ${jobRuns}
         where  ${this.matches(verb)}
         order  by fire_time, job_name
         limit  $6
         for    update skip locked
       ),
       changed as (
         update ${jobRuns} run
         set    ${changes(tables, verb)}
         from   picked
         where  run.job_name = picked.job_name
         and    run.fire_time = picked.fire_time
         returning run.job_name, run.fire_time${verb === 'replay' ? `, ${wakingUp(this.database.tables, 'runs')}` : ''}
       ),${verb === 'replay' ? `
       reopened as (
         ${reopening(this.database.tables, 'from   changed where page.job_name = changed.job_name and page.fire_time = changed.fire_time', '$7::text')}
       ),` : ''}
       recorded as (
         insert into ${jobActions} (action, job_name, fire_time, actor, reason, details)
         select '${verb}', job_name, fire_time, $7, $8, $9::jsonb
         from   changed
         order  by fire_time, job_name
       )
       ${FOUND}`,
      [...parametersOf(filter), limit, by, reason, JSON.stringify(details)],
    );
    return found(row!);
  }

  private matching(verb: BulkVerb): string {
    return `matching as materialized (
         select job_name, fire_time
         from   ${this.database.tables.jobRuns}
         where  ${this.matches(verb)}
       )`;
  }

  /** SQL for: a run that the filter's five parameters ask for, and that the verb changes. */
  private matches(verb: BulkVerb): string {
    return verb === 'replay' ? `${MATCHES} and not ${isRemoved(this.database.tables, 'job_name')}` : MATCHES;
  }
}

type BulkVerb = 'replay' | 'discard';

const DIED = DIED_OF_PAGES.replaceAll(/status|pages/g, 'run.$&');

/** SQL for what a verb sets; $7 is who and $8 why. */
const changes = (tables: Tables, verb: BulkVerb): string => ({
  replay: `status = case when ${DIED} then 'fanned_out' when run.status = 'dead' then 'queued' else run.status end,
                reason = 'replayed by ' || $7::text || ' (was ' || run.status || coalesce(': ' || run.reason, '') || ')',
                requested_by = $7,
                next_attempt_at = case when not ${DIED} then clock_timestamp() end,
                lease_until = case when not ${DIED} then run.lease_until end,
                finished_at = case when not ${DIED} then run.finished_at end,
                error = case when not ${DIED} then run.error end,
                releases = run.attempt,
                backfill_id = ${leftBackfill(tables, 'run')},
                cancel_requested_at = null,
                cancel_reason = null`,
  discard: `status = 'cancelled',
                reason = 'discarded: ' || $8::text,
                next_attempt_at = null`,
})[verb];

/** SQL for: a run that the first five parameters ask for. */
const MATCHES = `status = $1
         and   ($2::text is null or job_name = $2)
         and   ($3::timestamptz is null or fire_time >= $3)
         and   ($4::timestamptz is null or fire_time <= $4)
         and   ($5::text is null or position(lower($5) in lower(concat(error ->> 'name', ': ', error ->> 'message'))) > 0)`;

/** SQL for what a bulk verb answers. */
const FOUND = `select coalesce((select jsonb_agg(jsonb_build_array(job_name, fire_time) order by fire_time, job_name) from changed), '[]') as runs,
              (select count(*)::integer from matching) - (select count(*)::integer from changed) as left_over`;

interface FoundRow {
  runs: [jobName: string, fireTime: string][];
  left_over: number;
}

function found({ runs, left_over }: FoundRow): FoundRuns {
  return { runs: runs.map(([jobName, fireTime]) => ({ jobName, fireTime: new Date(fireTime) })), left: left_over };
}

function parametersOf({ status, jobName, from, to, errorContains }: RunFilter): unknown[] {
  return [status, jobName, from?.toISOString() ?? null, to?.toISOString() ?? null, errorContains];
}
