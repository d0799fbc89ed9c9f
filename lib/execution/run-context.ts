import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
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

  /**
   * @param what who asks, for the error's sentence
   * @throws OutsideRunError
   */
  require(what: string): InFlightRun {
    const run = this.storage.getStore();
    if (!run) throw new OutsideRunError(what);
    return run;
  }
}
