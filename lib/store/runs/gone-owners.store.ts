import type { GoneRun } from '../../domain/runs/fast-failover.js';
import type { RunKey } from '../../domain/runs/run.js';
import { inOnePreparedMessage } from '../connection/one-message.js';
import { queryOn, type Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { wakingUp } from '../wake-up.js';

/** More are found at the next look. */
const MOST_AT_A_LOOK = 1_000;

/** Rows of the dead stay for a day. What one of them still had by now is left to its leases, so that no look grows with them. */
const GONE_FOR_GOOD_AFTER = '10 minutes';

/** What one look at the others has found. */
export interface OthersSeen {
  /** Runs of other instances are under way. */
  readonly run: boolean;
  /** Those whose owner says that it holds a lock, and does not. */
  readonly gone: readonly GoneRun[];
}

/** An attempt whose lease was cut short. */
export interface CutRun extends RunKey {
  readonly attempt: number;
  readonly instanceId: string;
}

interface GoneRow {
  readonly jobName: string;
  readonly fireTime: string;
  readonly attempt: number;
  readonly instanceId: string;
  readonly lifeline: string;
}

/**
 * Finds runs whose owner's lifeline is not there, and ends their leases. Whether a lock is free is asked by trying it, shared
 * and for the statement alone: that costs less than a look at all locks of the server, and holds nobody up.
 */
export class GoneOwnersStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** @param instanceId who looks */
  async look(instanceId: string): Promise<OthersSeen> {
    const { tables, coordination } = this.database;
    const [row] = await inOnePreparedMessage<{ run: boolean; gone: GoneRow[] | null }>(coordination, [
      { name: 'gone owners', sql: ([id]) => lookAtOthers(tables, id!), values: [instanceId] },
    ]);
    return { run: row!.run, gone: (row!.gone ?? []).map((gone) => ({ ...gone, fireTime: new Date(gone.fireTime) })) };
  }

  /**
   * Ends the leases of runs whose owner's lifeline is the same as it was seen, and is still not there. Their rows say why, and
   * every instance looks at what can be started now.
   */
  async takeOver(runs: readonly GoneRun[]): Promise<CutRun[]> {
    const { tables } = this.database;
    const { jobRuns, jobInstances } = tables;
    return this.cut(
      `with asked as materialized (
         select *
         from   unnest($1::text[], $2::timestamptz[], $3::integer[], $4::text[], $5::bigint[])
                  as asked (job_name, fire_time, attempt, claimed_by, lifeline)
       ),
       gone as materialized (
         select instance.id
         from   ${jobInstances} instance
         where  (instance.id, instance.lifeline) in (select claimed_by, lifeline from asked)
         and    pg_try_advisory_xact_lock_shared(instance.lifeline)
       ),
       cut as (
         select run.job_name, run.fire_time, run.attempt
         from   asked
         join   gone on gone.id = asked.claimed_by
         join   ${jobRuns} run on run.job_name = asked.job_name and run.fire_time = asked.fire_time
         where  run.status = 'running'
         and    run.attempt = asked.attempt
         and    run.claimed_by = asked.claimed_by
         and    run.lease_until > clock_timestamp()
         order  by run.job_name, run.fire_time
         for    no key update of run skip locked
       )`,
      [...columnsOf(runs), runs.map(({ instanceId }) => instanceId), runs.map(({ lifeline }) => lifeline)],
    );
  }

  /**
   * Ends the leases of runs that this instance has told its handlers to stop: others need not wait for them. The attempts do
   * not count, as those that are handed back: a database that was away for a moment is not the run's fault.
   */
  async giveUp(runs: readonly (RunKey & { readonly attempt: number })[], instanceId: string): Promise<CutRun[]> {
    const { jobRuns } = this.database.tables;
    return this.cut(
      `with cut as (
         select run.job_name, run.fire_time, run.attempt
         from   unnest($1::text[], $2::timestamptz[], $3::integer[]) as given_up (job_name, fire_time, attempt)
         join   ${jobRuns} run on run.job_name = given_up.job_name and run.fire_time = given_up.fire_time
         where  run.status = 'running'
         and    run.attempt = given_up.attempt
         and    run.claimed_by = $4
         and    run.lease_until > clock_timestamp()
         order  by run.job_name, run.fire_time
         for    no key update of run skip locked
       )`,
      [...columnsOf(runs), instanceId],
      1,
    );
  }

  /**
   * @param found SQL that names the runs as `cut`: job_name, fire_time, attempt
   * @param releases 1 when the attempts do not count
   */
  private cut(found: string, parameters: unknown[], releases: 0 | 1 = 0): Promise<CutRun[]> {
    const { tables } = this.database;
    return this.query(
      `${found},
       ended as (
         update ${tables.jobRuns} run
         set    lease_until = clock_timestamp(),
                releases = run.releases + ${releases},
                reason = 'the lifeline of ' || run.claimed_by || ' was gone'
         from   cut
         where  run.job_name = cut.job_name
         and    run.fire_time = cut.fire_time
         and    run.status = 'running'
         and    run.attempt = cut.attempt
         and    run.lease_until > clock_timestamp()
         returning run.job_name, run.fire_time, run.attempt, run.claimed_by
       )
       select job_name as "jobName", fire_time as "fireTime", attempt, claimed_by as "instanceId", ${wakingUp(tables, 'runs')}
       from   ended`,
      parameters,
    ).then((rows) => (rows as unknown as CutRun[]).map(({ jobName, fireTime, attempt, instanceId }) => ({ jobName, fireTime, attempt, instanceId })));
  }
}

/** @param instanceId SQL for a jsonb text */
function lookAtOthers({ jobRuns, jobInstances }: SchedulerDatabase['tables'], instanceId: string): string {
  return `
      with gone as materialized (
        select id, lifeline
        from   ${jobInstances}
        where  lifeline is not null
        and    id <> ${instanceId} #>> '{}'
        and    alive_until > clock_timestamp() - interval '${GONE_FOR_GOOD_AFTER}'
        and    pg_try_advisory_xact_lock_shared(lifeline)
      ),
      runs as (
        select run.job_name, run.fire_time, run.attempt, run.claimed_by, gone.lifeline
        from   gone
        join   ${jobRuns} run on run.claimed_by = gone.id
        where  run.status = 'running'
        and    run.lease_until > clock_timestamp()
        order  by run.job_name, run.fire_time
        limit  ${MOST_AT_A_LOOK}
      )
      select exists (select from ${jobRuns} where status = 'running' and claimed_by <> ${instanceId} #>> '{}') as run,
            (select jsonb_agg(jsonb_build_object(
                      'jobName', job_name, 'fireTime', fire_time, 'attempt', attempt, 'instanceId', claimed_by, 'lifeline', lifeline::text))
             from   runs) as gone`;
}

function columnsOf(runs: readonly (RunKey & { readonly attempt: number })[]): unknown[] {
  return [runs.map(({ jobName }) => jobName), runs.map(({ fireTime }) => fireTime.toISOString()), runs.map(({ attempt }) => attempt)];
}
