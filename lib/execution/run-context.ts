import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import { AfterRunError } from '../errors/after-run.error.js';
import { OutsideRunError } from '../errors/outside-run.error.js';
import type { InFlightRun } from './in-flight-runs.js';

/** Which run the code that asks belongs to, without passing it along. */
@Injectable()
export class RunContext {
  private readonly storage = new AsyncLocalStorage<InFlightRun>();

  /** Everything the work awaits belongs to the run. */
  enter<Result>(run: InFlightRun, work: () => Promise<Result>): Promise<Result> {
    return this.storage.run(run, work);
  }

  /** The run whose handler is under way here; undefined outside of one. */
  get current(): InFlightRun | undefined {
    const run = this.storage.getStore();
    return run?.ended ? undefined : run;
  }

  /**
   * @param what who asks, for the error's sentence
   * @throws OutsideRunError, AfterRunError
   */
  require(what: string): InFlightRun {
    const run = this.storage.getStore();
    if (!run) throw new OutsideRunError(what);
    if (run.ended) throw new AfterRunError(what, run.owned);
    return run;
  }
}
