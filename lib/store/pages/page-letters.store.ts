import type { PageKey } from '../../domain/effects/page.js';
import type { RunKey } from '../../domain/runs/run.js';
import type { StoredError } from '../../domain/runs/stored-error.js';
import type { PageFilter } from '../../options/page-filter.js';
import type { Actor } from '../operations/dead-letter.store.js';
import { lockPages } from './page-lock.js';
import { reopening } from './page-reopening.js';
import { queryOn, type Query } from '../connection/query.js';
import { recordAction } from '../operations/record-action.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import { inTransaction } from '../connection/transaction.js';

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

  /** Queues these pages of one occurrence again, which is under way again by that. @returns how many; those that nobody has changed meanwhile */
  replay(run: RunKey, pages: readonly string[], { by, reason }: Actor): Promise<number> {
    const { tables } = this.database;
    return this.change(run, async (query, key) => {
      // First the run: a run that ended otherwise, or is begun again, has its pages begun by that.
      const runs = await query(
        `update ${tables.jobRuns}
         set    status = 'fanned_out',
                reason = 'pages replayed by ' || $3::text,
                error = null,
                finished_at = null,
                lease_until = null,
                cancel_requested_at = null,
                cancel_reason = null
         where  job_name = $1
         and    fire_time = $2
         and    status in ('dead', 'fanned_out')
         and    pages is not null
         returning 1`,
        [...key, by],
      );
      if (runs.length === 0) return 0;
      const changed = await query(
        `${reopening(tables, `where page.job_name = $1 and page.fire_time = $2 and page.page = any ($3::text[]) and page.status = 'dead'`, '$4::text')} returning 1`,
        [...key, pages, by],
      );
      if (changed.length > 0) await recordAction(query, tables, { action: 'replay-pages', ...run, by, reason, details: { pages: changed.length } });
      return changed.length;
    });
  }

  /** Throws these pages of one occurrence away; with the last dead one a dead occurrence ends as cancelled. @returns how many */
  discard(run: RunKey, pages: readonly string[], { by, reason }: Actor): Promise<number> {
    const { tables } = this.database;
    return this.change(run, async (query, key) => {
      const changed = await query(
        `update ${tables.jobPages}
         set    status = 'cancelled',
                reason = 'discarded: ' || $4::text
         where  job_name = $1
         and    fire_time = $2
         and    page = any ($3::text[])
         and    status = 'dead'
         returning 1`,
        [...key, pages, reason],
      );
      if (changed.length === 0) return 0;
      await query(
        `update ${tables.jobRuns}
         set    status = 'cancelled',
                reason = 'discarded: ' || $3::text
         where  job_name = $1
         and    fire_time = $2
         and    status = 'dead'
         and    pages is not null
         and    not exists (
                  select from ${tables.jobPages} page
                  where  page.job_name = $1
                  and    page.fire_time = $2
                  and    page.status = 'dead')`,
        [...key, reason],
      );
      await recordAction(query, tables, { action: 'discard-pages', ...run, by, reason, details: { pages: changed.length } });
      return changed.length;
    });
  }

  private change(run: RunKey, work: (query: Query, key: [string, string]) => Promise<number>): Promise<number> {
    const { coordination, tables } = this.database;
    const key: [string, string] = [run.jobName, run.fireTime.toISOString()];
    return inTransaction(coordination, async (query) => {
      await query(lockPages(tables.schema, '$1::text', '$2::timestamptz'), key);
      return work(query, key);
    });
  }
}
