import type { PageKey } from '../../domain/effects/page.js';
import type { RunKey } from '../../domain/runs/run.js';
import type { StoredError } from '../../domain/runs/stored-error.js';
import type { PageFilter } from '../../options/page-filter.js';
import { carryOut } from '../operations/carry-out.js';
import type { Actor } from '../operations/dead-letter.store.js';
import { queryOn, type Query } from '../connection/query.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** A page that waits for a person. */
export interface DeadPage extends PageKey {
  readonly data: unknown;
  readonly attempt: number;
  readonly error: StoredError | null;
  readonly reason: string | null;
  readonly finishedAt: Date;
}

/** What a filter found. */
export interface FoundPages {
  /** The earliest fire times first. */
  readonly pages: readonly DeadPage[];
  /** How many more there are. */
  readonly left: number;
}

/** Dead pages: to be looked at, begun again or thrown away. Each occurrence is changed in a transaction of its own. */
export class PageLettersStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  async find({ jobName, fireTime, page, errorContains }: PageFilter, limit: number): Promise<FoundPages> {
    const rows = await this.query<DeadPage & { total: number }>(
      `select job_name as "jobName", fire_time as "fireTime", page, data, attempt, error, reason, finished_at as "finishedAt",
              count(*) over ()::integer as total
       from   ${this.database.tables.jobPages}
       where  status = 'dead'
       and   ($1::text is null or job_name = $1)
       and   ($2::timestamptz is null or fire_time = $2)
       and   ($3::text is null or page = $3)
       and   ($4::text is null or position(lower($4) in lower(concat(error ->> 'name', ': ', error ->> 'message'))) > 0)
       order  by fire_time, job_name, page
       limit  $5`,
      [jobName, fireTime?.toISOString() ?? null, page, errorContains, limit],
    );
    return { pages: rows.map(({ total: _total, ...found }) => found), left: (rows[0]?.total ?? 0) - rows.length };
  }

  /** Queues these pages of one occurrence again, which waits for its start by that. @returns how many; those that nobody has changed meanwhile */
  replay(run: RunKey, pages: readonly string[], actor: Actor): Promise<number> {
    return this.change('replay', run, pages, actor);
  }

  /** Throws these pages of one occurrence away; with the last dead one a dead occurrence ends as cancelled. @returns how many */
  discard(run: RunKey, pages: readonly string[], actor: Actor): Promise<number> {
    return this.change('discard', run, pages, actor);
  }

  private async change(verb: 'replay' | 'discard', { jobName, fireTime }: RunKey, pages: readonly string[], { by, reason }: Actor): Promise<number> {
    const at = fireTime.toISOString();
    const asked = { verb, jobName, what: `pages of job "${jobName}" of ${at}` };
    const { facts } = await carryOut<{ pages: number }>(this.database, `page_${verb}_1`, [jobName, at, pages, by, reason], asked);
    return facts.pages;
  }
}
