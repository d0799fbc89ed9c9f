import type { RunKey } from '../../domain/runs/run.js';
import type { RunFilter } from '../../options/dead-letter-filter.js';
import type { Actor } from './dead-letter.store.js';
import { carryOut } from './carry-out.js';
import { queryOn } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** What a filter found. */
export interface FoundRuns {
  /** The earliest fire times first. */
  readonly runs: readonly RunKey[];
  /** How many more there are. */
  readonly left: number;
}

/** What bulk verbs say of themselves in `job_actions.details`. */
type Details = Readonly<Record<string, unknown>>;

type BulkVerb = 'replay' | 'discard';

/**
 * What `DeadLetterStore` does to one run, done to many: each verb is one statement with a limit, that also records it for
 * each run. A run that somebody else changes right now is passed over.
 */
export class DeadLetterBulkStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** Those that {@link replayAll} or {@link discardAll} would change. */
  async find({ status, ...filter }: RunFilter, limit: number, verb: BulkVerb): Promise<FoundRuns> {
    const { coordination, tables } = this.database;
    const rows = await queryOn(coordination)<RunKey & { total: number }>(
      `select run.job_name as "jobName", run.fire_time as "fireTime", count(*) over ()::integer as total
       from   ${tables.jobRuns} run
       where  run.status = $1
       and    ${tables.qualify('run_matches_1')}(run.job_name, run.fire_time, run.error, $2, $3, $4, $5, $6)
       order  by run.fire_time, run.job_name
       limit  $7`,
      [status, verb, ...parametersOf(filter), limit],
    );
    return { runs: rows.map(({ jobName, fireTime }) => ({ jobName, fireTime })), left: (rows[0]?.total ?? 0) - rows.length };
  }

  replayAll(filter: RunFilter, limit: number, actor: Actor, details: Details): Promise<FoundRuns> {
    return this.change('replay', filter, limit, actor, details);
  }

  discardAll(filter: RunFilter, limit: number, actor: Actor, details: Details): Promise<FoundRuns> {
    return this.change('discard', filter, limit, actor, details);
  }

  private async change(verb: BulkVerb, { status, ...filter }: RunFilter, limit: number, { by, reason }: Actor, details: Details): Promise<FoundRuns> {
    const values = [verb, status, ...parametersOf(filter), limit, by, reason, JSON.stringify(details)];
    const asked = { verb, jobName: null, what: `runs that are ${status}` };
    const { facts } = await carryOut<{ runs: [jobName: string, fireTime: string][]; left: number }>(this.database, 'run_change_all_1', values, asked);
    return { runs: facts.runs.map(([jobName, fireTime]) => ({ jobName, fireTime: new Date(fireTime) })), left: facts.left };
  }
}

function parametersOf({ jobName, from, to, errorContains }: Omit<RunFilter, 'status'>): (string | null)[] {
  return [jobName, from?.toISOString() ?? null, to?.toISOString() ?? null, errorContains];
}
