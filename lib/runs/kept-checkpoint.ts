import { checkpointJson } from './checkpoint.js';
import type { RunCheckpoint } from './cron-run.js';
import type { LeaseLostError } from '../errors/run.errors.js';
import type { JobRunRepository } from './job-run.repository.js';
import type { InFlightRun } from './in-flight-runs.js';
import { requireUnderWay } from './run-context.js';

/**
 * The checkpoint of one attempt: what is in the row as far as this process knows, and its writes in the order of their
 * calls.
 */
export class KeptCheckpoint implements RunCheckpoint {
  /** JSON; null for none; undefined when only the database knows. */
  private json: string | null | undefined;
  private last: Promise<unknown> = Promise.resolve();
  private waiting = 0;
  /** How many transactions have written it, or may have. */
  private others = 0;

  constructor(
    private readonly run: InFlightRun,
    private readonly store: JobRunRepository,
    /** The database has refused a write. */
    private readonly refused: () => LeaseLostError,
  ) {
    const { checkpoint } = run.owned;
    this.json = checkpoint && JSON.stringify(checkpoint.value);
  }

  get<Saved>(): Promise<Saved | undefined> {
    return this.inTurn('CronRun.checkpoint.get', async () => {
      if (this.json === undefined) await this.load();
      return this.json === null ? undefined : (JSON.parse(this.json!) as Saved);
    });
  }

  save(value: unknown): Promise<void> {
    return this.write('CronRun.checkpoint.save', () => checkpointJson(value));
  }

  clear(): Promise<void> {
    return this.write('CronRun.checkpoint.clear', () => null);
  }

  /** A transaction has committed, or may have: what it wrote is taken over only where nothing else is being written. */
  wrote(json: string | undefined): void {
    this.others += 1;
    this.json = this.waiting === 0 ? json : undefined;
  }

  private write(what: string, read: () => string | null): Promise<void> {
    let json: string | null;
    try {
      json = read();
    } catch (problem) {
      return this.tracked(Promise.reject(problem));
    }
    return this.inTurn(what, async () => {
      const { others } = this;
      this.json = undefined;
      if (!(await this.store.keepCheckpoint(this.run.owned, json))) throw this.refused();
      if (this.others === others) this.json = json;
    });
  }

  private async load(): Promise<void> {
    const saved = await this.store.checkpointOf(this.run.owned);
    if (saved === undefined) throw this.refused();
    this.json = saved && JSON.stringify(saved.value);
  }

  private inTurn<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
    return this.tracked(this.enqueue(what, work));
  }

  private async enqueue<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
    requireUnderWay(what, this.run);
    this.waiting += 1;
    const turn = this.last.then(() => {
      if (this.run.leaseLost) throw this.run.leaseLost;
      return work();
    });
    const done = () => void (this.waiting -= 1);
    this.last = turn.then(done, done);
    return this.run.whileOurs(turn);
  }

  private tracked<Result>(work: Promise<Result>): Promise<Result> {
    this.run.track(work);
    return work;
  }
}
