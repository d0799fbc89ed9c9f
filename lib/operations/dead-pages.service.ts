import { Injectable } from '@nestjs/common';
import { type Query, queryOn } from '../database/query.js';
import { AfterRegistration } from '../database/registration.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { InvalidOptionsError } from '../errors/errors.js';
import type { StoredError } from '../errors/stored-error.js';
import { PageKeeper } from '../fan-out/page-keeper.service.js';
import type { PageKey } from '../fan-out/page.js';
import { instant, type Operator, readObject, readOperator } from '../options/operator-options.js';
import { flag, integer, text, type OptionTable } from '../options/option-rules.js';
import { runId, type RunKey } from '../options/run.js';
import { ReaperService } from '../runs/reaper.service.js';
import { carryOut } from './carry-out.js';
import type { Actor } from './dead-letters.service.js';

/** Which dead pages a verb is for. */
export interface DeadPageFilter {
  readonly jobName?: string;
  /** Of this occurrence alone. */
  readonly fireTime?: Date;
  /** The page of this id. */
  readonly page?: string;
  /** A part of the error's name or message, whatever its case. */
  readonly errorContains?: string;
}

/** How far a verb goes. */
export interface DeadPageOptions {
  /** How many pages at most; 1 to 10000. @default 1000 */
  readonly limit?: number;
  /** True: nothing is changed, and the answer is what would have been. @default false */
  readonly dryRun?: boolean;
}

/** A filter that was read: what is null is not asked for. */
export interface PageFilter {
  readonly jobName: string | null;
  readonly fireTime: Date | null;
  readonly page: string | null;
  readonly errorContains: string | null;
}

const FILTER = {
  jobName: { rule: text(200) },
  fireTime: { rule: instant },
  page: { rule: text(200) },
  errorContains: { rule: text(1_000) },
} as const satisfies Record<keyof DeadPageFilter, OptionTable[string]>;

const OPTIONS = {
  limit: { rule: integer({ atLeast: 1, atMost: 10_000 }) },
  dryRun: { rule: flag },
} as const satisfies Record<keyof DeadPageOptions, OptionTable[string]>;

/** @param verb for people: `SchedulerService.replayPages` @throws InvalidOptionsError with every problem */
export function readPageFilter(
  given: DeadPageFilter | undefined,
  options: DeadPageOptions | undefined,
  verb: string,
): { filter: PageFilter; limit: number; dryRun: boolean } {
  const which = readObject(given, FILTER);
  const how = readObject(options, OPTIONS);
  const problems = [...which.problems, ...how.problems];
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${verb}: ${problem}`));
  const { jobName = null, fireTime = null, page = null, errorContains = null } = which.values;
  return {
    filter: { jobName, fireTime, page, errorContains },
    limit: how.values.limit ?? 1_000,
    dryRun: how.values.dryRun ?? false,
  };
}

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

  /**
   * Queues these pages of one occurrence again, which waits for its start by that. @returns how many; those that nobody
   * has changed meanwhile
   */
  replay(run: RunKey, pages: readonly string[], actor: Actor): Promise<number> {
    return this.change('replay', run, pages, actor);
  }

  /**
   * Throws these pages of one occurrence away; with the last dead one a dead occurrence ends as cancelled. @returns how
   * many
   */
  discard(run: RunKey, pages: readonly string[], actor: Actor): Promise<number> {
    return this.change('discard', run, pages, actor);
  }

  private async change(
    verb: 'replay' | 'discard',
    { jobName, fireTime }: RunKey,
    pages: readonly string[],
    { by, reason }: Actor,
  ): Promise<number> {
    const at = fireTime.toISOString();
    const asked = { verb, jobName, what: `pages of job "${jobName}" of ${at}` };
    const { facts } = await carryOut<{ pages: number }>(
      this.database,
      `page_${verb}_1`,
      [jobName, at, pages, by, reason],
      asked,
    );
    return facts.pages;
  }
}

/** What became of dead pages. */
export interface ChangedPages {
  /** How many were changed, or with `dryRun` would be. */
  readonly pages: number;
  /** How many more there are. */
  readonly left: number;
}

/**
 * What a person does about pages that have failed. Each verb is recorded in `job_actions`, once for each occurrence.
 */
@Injectable()
@AfterRegistration()
export class DeadPages {
  constructor(
    private readonly store: PageLettersStore,
    private readonly keeper: PageKeeper,
    private readonly reaper: ReaperService,
  ) {}

  /** See `SchedulerService.deadPages`. */
  async list(filter?: DeadPageFilter, options?: Pick<DeadPageOptions, 'limit'>): Promise<FoundPages> {
    const { filter: which, limit } = readPageFilter(filter, options, 'SchedulerService.deadPages');
    return this.store.find(which, limit);
  }

  /** See `SchedulerService.replayPages`. */
  async replay(filter: DeadPageFilter, operator: Operator, options?: DeadPageOptions): Promise<ChangedPages> {
    const verb = 'SchedulerService.replayPages';
    const actor = readOperator(operator, verb);
    const changed = await this.change(filter, options, verb, (run, pages) => this.store.replay(run, pages, actor));
    this.reaper.wake();
    this.keeper.wake();
    return changed;
  }

  /** See `SchedulerService.discardPages`. */
  async discard(filter: DeadPageFilter, operator: Operator, options?: DeadPageOptions): Promise<ChangedPages> {
    const verb = 'SchedulerService.discardPages';
    const { by, reason } = readOperator(operator, verb);
    if (reason === null && options?.dryRun !== true)
      throw new InvalidOptionsError([`${verb}: reason: say why, as in { by: '${by}', reason: '…' }`]);
    const actor: Actor = { by, reason };
    return this.change(filter, options, verb, (run, pages) => this.store.discard(run, pages, actor));
  }

  private async change(
    filter: DeadPageFilter,
    options: DeadPageOptions | undefined,
    verb: string,
    act: (run: RunKey, pages: string[]) => Promise<number>,
  ): Promise<ChangedPages> {
    const { filter: which, limit, dryRun } = readPageFilter(filter, options, verb);
    const { pages, left } = await this.store.find(which, limit);
    if (dryRun) return { pages: pages.length, left };
    const byRun = new Map<string, { run: RunKey; pages: string[] }>();
    for (const { jobName, fireTime, page } of pages) {
      const run = { jobName, fireTime };
      const own = byRun.get(runId(run));
      if (own) own.pages.push(page);
      else byRun.set(runId(run), { run, pages: [page] });
    }
    let changed = 0;
    for (const own of byRun.values()) changed += await act(own.run, own.pages);
    return { pages: changed, left };
  }
}
