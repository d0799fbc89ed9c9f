import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import type { DeliveredTime } from './delivery.js';
import type { Duration } from '../options/duration.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { FlagAnswers } from '../runs/flag-answers.js';
import { ReaperService } from '../runs/reaper.service.js';
import { readOperationOptions } from '../options/operator-options.js';
import { instant, jobNameOf, storable } from '../options/operator-options.js';
import { duration, text, type OptionTable } from '../options/option-rules.js';
import { AfterRegistration } from '../database/registration.js';
import { DeliveryStore } from './delivery.store.js';
import { deliver, untilEnded } from './deliver.js';
import type { Delivered } from './delivered.js';

export interface DeliverOptions {
  /** The planned time: a fire time of the job's schedule. @default the one that is due now, at most `lateAfter` ago */
  readonly fireTime?: Date;
  /** Who delivers, kept as `requested_by`; at most 200 characters. */
  readonly by?: string;
  /** What the handler gets as `run.data`: anything that JSON can hold. @default what the job has */
  readonly data?: unknown;
  /** Answer when the run has ended, and after so long at the latest; up to an hour. @default at once */
  readonly wait?: Duration;
}

const VERB = 'SchedulerService.deliver';

const DELIVER_OPTIONS = {
  fireTime: { rule: instant },
  by: { rule: text(200) },
  data: { rule: storable },
  wait: { rule: duration({ atMost: '1h' }) },
} as const satisfies Record<keyof DeliverOptions, OptionTable[string]>;

/** Takes in occurrences that a clock outside delivers. */
@Injectable()
@AfterRegistration()
export class Deliveries implements OnModuleDestroy {
  private readonly stopping = new AbortController();

  constructor(
    private readonly store: DeliveryStore,
    private readonly flags: FlagAnswers,
    private readonly reaper: ReaperService,
    private readonly events: SchedulerEvents,
  ) {}

  /** See `SchedulerService.deliver`. */
  async deliver(jobName: string, options?: DeliverOptions): Promise<Delivered> {
    const { fireTime, ...rest } = readOperationOptions(options, DELIVER_OPTIONS, VERB);
    return this.take(jobName, fireTime ? { kind: 'planned', at: fireTime.getTime() } : { kind: 'now' }, rest);
  }

  /** Who waits is answered: an open request would keep the application from closing. */
  onModuleDestroy(): void {
    this.stopping.abort();
  }

  /** The same, of options that were read. */
  async take(
    jobName: string,
    time: DeliveredTime,
    { by, data, wait = 0 }: { by?: string; data?: unknown; wait?: number },
  ): Promise<Delivered> {
    const name = jobNameOf(jobName, VERB);
    const flagOff = async (flag: string | null) => (await this.flags.off([flag])).get(flag) ?? null;
    const taken = await deliver(this.store, { jobName: name, time, by: by ?? null, data: data ?? null }, flagOff);
    if (!taken.duplicate) this.tell(taken);
    return wait > 0 ? untilEnded(this.store, taken, wait, this.stopping.signal) : taken;
  }

  private tell({ jobName, fireTime, status, reason }: Delivered): void {
    if (status === 'skipped') return this.events.emit({ type: 'run.skipped', jobName, fireTime, reason: reason ?? '' });
    this.events.emit({ type: 'run.queued', jobName, fireTime, trigger: 'external' });
    this.reaper.wake();
  }
}
