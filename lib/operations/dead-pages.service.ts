import { Injectable } from '@nestjs/common';
import { runId, type RunKey } from '../domain/runs/run.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { PageKeeper } from '../maintenance/page-keeper.service.js';
import { ReaperService } from '../maintenance/reaper.service.js';
import { readOperator, type Operator } from '../options/operator.js';
import { readPageFilter, type DeadPageFilter, type DeadPageOptions } from '../options/page-filter.js';
import { AfterRegistration } from '../runtime/registration.js';
import type { Actor } from '../store/operations/dead-letter.store.js';
import { PageLettersStore, type FoundPages } from '../store/pages/page-letters.store.js';

/** What became of dead pages. */
export interface ChangedPages {
  /** How many were changed, or with `dryRun` would be. */
  readonly pages: number;
  /** How many more there are. */
  readonly left: number;
}

/** What a person does about pages that have failed. Each verb is recorded in `job_actions`, once for each occurrence. */
@Injectable()
@AfterRegistration()
export class DeadPages {
  constructor(
    private readonly store: PageLettersStore,
    private readonly keeper: PageKeeper,
    private readonly reaper: ReaperService,
  ) {}

  /** Pages that wait for a person, the earliest fire times first. @throws InvalidOptionsError */
  async list(filter?: DeadPageFilter, options?: Pick<DeadPageOptions, 'limit'>): Promise<FoundPages> {
    const { filter: which, limit } = readPageFilter(filter, options, 'SchedulerService.deadPages');
    return this.store.find(which, limit);
  }

  /**
   * Lets dead pages begin again, with all their attempts and the same receipts; those that are done are left alone. Their occurrence
   * waits like any waiting run: for its turn, and for the end of a pause. Then it is under way, and ends with the last of them.
   * @throws InvalidOptionsError
   */
  async replay(filter: DeadPageFilter, operator: Operator, options?: DeadPageOptions): Promise<ChangedPages> {
    const verb = 'SchedulerService.replayPages';
    const actor = readOperator(operator, verb);
    const changed = await this.change(filter, options, verb, (run, pages) => this.store.replay(run, pages, actor));
    this.reaper.wake();
    this.keeper.wake();
    return changed;
  }

  /**
   * Ends dead pages for good: they are cancelled, with the operator's reason. When none is left of a dead occurrence, that is
   * cancelled, too. With `dryRun` no reason is needed.
   * @throws InvalidOptionsError
   */
  async discard(filter: DeadPageFilter, operator: Operator, options?: DeadPageOptions): Promise<ChangedPages> {
    const verb = 'SchedulerService.discardPages';
    const { by, reason } = readOperator(operator, verb);
    if (reason === null && options?.dryRun !== true) throw new InvalidOptionsError([`${verb}: reason: say why, as in { by: '${by}', reason: '…' }`]);
    const actor: Actor = { by, reason };
    return this.change(filter, options, verb, (run, pages) => this.store.discard(run, pages, actor));
  }

  private async change(filter: DeadPageFilter, options: DeadPageOptions | undefined, verb: string, act: (run: RunKey, pages: string[]) => Promise<number>): Promise<ChangedPages> {
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
