import { Inject, Injectable } from '@nestjs/common';
import type { WakeUp } from '../database/tables.js';
import { Duty } from '../observe/duty.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { type AskedToStop, runId } from '../options/run.js';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../options/tokens.js';
import { FlagAnswers } from './flag-answers.js';
import { type InFlightRun, InFlightRuns } from './in-flight-runs.js';
import { JobRunRepository } from './job-run.repository.js';

/**
 * Tells the handlers of this process that their runs are cancelled: by an operator, or because their flag was turned
 * off.
 */
@Injectable()
export class Cancellations {
  private asking = false;

  constructor(
    private readonly runs: InFlightRuns,
    private readonly answers: FlagAnswers,
  ) {}

  /** The flags that, turned off, cancel a run that is under way here. */
  get flags(): string[] {
    return [...new Set(this.stoppable.map(({ job }) => job.flag!))];
  }

  /** `flagsOff` is what the table has as off: the provider is asked besides, and not waited for. */
  apply({ cancels, flagsOff }: AskedToStop): void {
    for (const request of cancels) this.runs.get(runId(request), request.attempt)?.cancel(request.reason);
    this.cancelRunsOf(new Map(flagsOff.map((flag) => [flag, `flag off: ${flag}`])));
    if (this.asking || this.flags.length === 0) return;
    this.asking = true;
    void this.answers
      .off(this.flags)
      .then((off) => this.cancelRunsOf(off))
      .finally(() => (this.asking = false));
  }

  private cancelRunsOf(off: ReadonlyMap<string | null, string>): void {
    for (const run of this.stoppable) {
      const reason = off.get(run.job.flag);
      if (reason !== undefined) run.cancel(reason);
    }
  }

  private get stoppable(): InFlightRun[] {
    return this.runs.list().filter(({ job: { flag, flagOff } }) => flag !== null && flagOff === 'cancel');
  }
}

/**
 * Tells running handlers that their runs are cancelled while the instance stops: what told them before, the look for
 * changed schedules, has stopped by then. Asks nothing while no handler runs.
 */
@Injectable()
export class CancelWatch extends Duty {
  override readonly goesOn = 'while draining';

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    @Inject(INSTANCE_ID) private readonly instanceId: string,
    private readonly runs: InFlightRuns,
    private readonly store: JobRunRepository,
    private readonly cancellations: Cancellations,
    events: SchedulerEvents,
  ) {
    super(events, { name: 'cancel watch', maxSleepMs: options.pollIntervalMs });
  }

  protected pass(): Promise<number> {
    return this.look();
  }

  override hearOthers(wakeUp: WakeUp): void {
    if (wakeUp !== 'runs') this.wake();
  }

  /** One pass. @returns milliseconds to the next */
  async look(): Promise<number> {
    // None now: a claim under way may start one.
    if (this.runs.size > 0)
      this.cancellations.apply(await this.store.askedToStop(this.instanceId, this.cancellations.flags));
    return this.options.pollIntervalMs;
  }
}
