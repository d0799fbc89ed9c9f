import { Injectable } from '@nestjs/common';
import { KnownJobs } from '../jobs/known-jobs.js';
import { type PageProgress, readPage, type PageInput } from './page.js';
import { occurrence, UsageError } from '../errors/errors.js';
import { LeaseLostError } from '../errors/run.errors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { PageStore, type NewPage } from './page.repository.js';
import { InFlightRuns, type InFlightRun } from '../runs/in-flight-runs.js';
import { PageHandOver } from './page-queues.js';
import { RunContext } from '../runs/run-context.js';

/** What became of published pages. */
export interface Published {
  /** How many were given. */
  readonly pages: number;
  /** How many of them were not there yet: the others are of an earlier attempt. */
  readonly added: number;
}

/** How many pages are written, and handed over, at once. */
const BATCH = 500;

/** How much data are written at once, in characters of JSON, unless one page has more. */
const BATCH_SIZE = 4_194_304;

/** Turns an occurrence into pages that workers on all replicas compete for. */
@Injectable()
export class FanOutService {
  /** What an attempt has published so far. */
  private readonly ids = new WeakMap<InFlightRun, Set<string>>();

  constructor(
    private readonly context: RunContext,
    private readonly runs: InFlightRuns,
    private readonly known: KnownJobs,
    private readonly store: PageStore,
    private readonly handOver: PageHandOver,
    private readonly events: SchedulerEvents,
  ) {}

  /**
   * Publishes pages of the run whose handler calls it: each is written to `job_pages` and then handed to the queue.
   * When the handler has returned, the run needs nobody any more: it is `fanned_out`, and ends with the last of its
   * pages.
   *
   * A retried attempt adds nothing that is there. For that a page has an id, made by you or of its place: without ids
   * of their own, the pages must come in the same order again. Data of a page that is there stay as they were.
   *
   * @param pages `{ id?, data }`, or the data alone; at most 1 MB of JSON each
   * @throws UsageError outside a handler, and when there is no `@DistributedCronPage` for the job
   * here, or two pages have one id; LeaseLostError when the run is no longer this process'
   */
  publish<Data>(pages: Iterable<PageInput<Data>> | AsyncIterable<PageInput<Data>>): Promise<Published> {
    const work = this.write(pages);
    this.context.current?.track(work);
    return work;
  }

  /** How far an occurrence's pages are. */
  progress(jobName: string, fireTime: Date): Promise<PageProgress> {
    return this.store.progress({ jobName, fireTime });
  }

  private async write(pages: Iterable<unknown> | AsyncIterable<unknown>): Promise<Published> {
    const run = this.context.require('FanOutService.publish');
    if (run.owned.page !== undefined) throw invalidPages(run, 'a page cannot have pages of its own');
    if (!this.known.pageHandler(run.owned.jobName))
      throw invalidPages(run, 'no method of this instance has @DistributedCronPage for the job');
    run.publishes = true;
    let [published, added, size] = [0, 0, 0];
    let batch: NewPage[] = [];
    const flush = async () => {
      added += await this.hand(run, batch);
      [batch, size] = [[], 0];
    };
    for await (const given of pages) {
      const page = this.read(run, given);
      batch.push(page);
      size += page.data?.length ?? 0;
      published += 1;
      if (batch.length >= BATCH || size >= BATCH_SIZE) await flush();
    }
    if (batch.length > 0) await flush();
    const { jobName, fireTime, attempt } = run.owned;
    this.events.emit({ type: 'pages.published', jobName, fireTime, attempt, published, added });
    return { pages: published, added };
  }

  private read(run: InFlightRun, given: unknown): NewPage {
    const ids = this.ids.get(run) ?? new Set();
    this.ids.set(run, ids);
    const reading = readPage(given, ids.size);
    if ('problem' in reading) throw invalidPages(run, reading.problem);
    if (ids.has(reading.page)) throw invalidPages(run, `two pages have the id ${reading.page}`);
    ids.add(reading.page);
    return reading;
  }

  /**
   * Written first, and then handed over: what a crash leaves between the two is handed over by the next attempt, or by
   * the page keeper.
   */
  private async hand(run: InFlightRun, batch: readonly NewPage[]): Promise<number> {
    if (run.leaseLost) throw run.leaseLost;
    const added = await run.whileOurs(this.store.add(run.owned, batch));
    if (added === null) throw this.refused(run);
    const tickets = await this.store.toHandOver(
      run.owned,
      batch.map(({ page }) => page),
    );
    // A queue that is out of reach fails no tick: the pages are there, and the keeper hands them over.
    await this.handOver.hand(tickets).catch((error: unknown) => this.handOver.failed(error));
    return added;
  }

  private refused(run: InFlightRun): LeaseLostError {
    this.runs.lose(run, 'taken over');
    return run.leaseLost ?? new LeaseLostError(run.owned, 'taken over');
  }
}

function invalidPages({ owned }: InFlightRun, problem: string): UsageError {
  return new UsageError('invalid-pages', `FanOutService.publish of ${occurrence(owned)}: ${problem}.`);
}
