import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicNow } from '../database/clock.js';
import { AfterRegistration } from '../database/registration.js';
import { DeliveryRefusedError } from '../errors/errors.js';
import { mostLateMs } from '../jobs/job-cursors.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { delivered, type Delivered, type DeliveredTime, hasEnded, lateness, occurrenceOf } from './delivery-rules.js';
import { type DeliverableJob, DeliveryStore } from './delivery.store.js';
import type { Duration } from '../options/duration.js';
import { instant, jobNameOf, readOperationOptions, storable } from '../options/operator-options.js';
import { duration, type OptionTable, text } from '../options/option-rules.js';
import type { RunKey } from '../options/run.js';
import type { Delivery } from '../runs/claim.js';
import { FlagAnswers } from '../runs/flag-answers.js';
import { ReaperService } from '../runs/reaper.service.js';

/** An occurrence that an outside clock delivers. */
export interface DeliveryRequest extends Delivery {
  readonly jobName: string;
  readonly time: DeliveredTime;
}

/** How often a job may be edited between the look at it and the claim. */
const MOST_EDITS = 3;

/** How soon it is looked again whether a run has ended, in milliseconds: twice as long each time. */
const FIRST_LOOK_MS = 100;
const LAST_LOOK_MS = 2_000;

/**
 * Takes a delivered occurrence in: at least once in, once out. Without Nest, so that a command line can.
 * @param flagOff why a flag is off, if the application's own provider says so
 * @throws NotFoundError, DeliveryRefusedError
 */
export async function deliver(
  store: DeliveryStore,
  { jobName, time, by, data }: DeliveryRequest,
  flagOff: (flag: string | null) => Promise<string | null> = async () => null,
): Promise<Delivered> {
  for (let edits = 0; ; edits++) {
    const job = await store.job(jobName);
    const fireTime = fireTimeOf(job, time);
    const key = { jobName: job.name, fireTime };
    const { row, isSuperseded } = await store.standing(key);
    if (row) return delivered(key, row, true);
    if (fireTime <= job.effectiveFrom) {
      throw new DeliveryRefusedError(
        job.name,
        'before the schedule',
        `its schedule holds from ${job.effectiveFrom.toISOString()} on, and what came before is never due; a backfill runs it`,
      );
    }
    const late = lateness({ fireTime: fireTime.getTime(), now: job.now.getTime(), isSuperseded }, job);
    const verdict = await store.take(job, fireTime, late ?? (await flagOff(job.flag)), { by, data });
    if (verdict === 'outdated' && edits < MOST_EDITS) continue;
    const { row: now } = await store.standing(key);
    if (now) return delivered(key, now, verdict === 'taken');
    throw new DeliveryRefusedError(
      job.name,
      'before the schedule',
      `everything up to ${job.decidedUntil.toISOString()} was decided, and there is no row of it any more`,
    );
  }
}

/**
 * Looks until the run has ended, for so many milliseconds at most, or until it is told to stop. @returns it as it is
 * then
 */
export async function untilEnded(
  store: DeliveryStore,
  at: Delivered,
  waitMs: number,
  signal?: AbortSignal,
): Promise<Delivered> {
  const until = monotonicNow() + waitMs;
  let last = at;
  for (
    let pause = FIRST_LOOK_MS;
    !hasEnded(last) && monotonicNow() < until && !signal?.aborted;
    pause = Math.min(2 * pause, LAST_LOOK_MS)
  ) {
    await sleep(Math.min(pause, Math.max(1, until - monotonicNow())), undefined, { signal }).catch(() => {});
    if (signal?.aborted) break;
    last = await standingNow(store, at, at.duplicate).catch((error: unknown) => {
      // The connections are closed under it.
      if (signal?.aborted) return last;
      throw error;
    });
  }
  return last;
}

async function standingNow(store: DeliveryStore, key: RunKey, duplicate: boolean): Promise<Delivered> {
  const { row } = await store.standing(key);
  return delivered(key, row ?? { status: 'cancelled', reason: 'its row is gone' }, duplicate);
}

function fireTimeOf(job: DeliverableJob, time: DeliveredTime): Date {
  const { name, schedule, now } = job;
  const found = occurrenceOf(schedule, time, now.getTime(), mostLateMs(job));
  if (typeof found === 'number') return new Date(found);
  throw new DeliveryRefusedError(name, found.problem, found.why);
}

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
