import { isDate } from 'node:util/types';
import type { INestApplicationContext } from '@nestjs/common';
import { filter, firstValueFrom } from 'rxjs';
import { JobRegistry } from '../jobs/job.registry.js';
import type { JobDefinition } from '../options/job-definition.js';
import type { EventOf } from '../observe/scheduler-event.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import { ClaimService } from '../runs/claim.service.js';
import { ExecutorService } from '../runs/executor.service.js';
import { DatabaseTime } from '../database/clock.js';

/** How an attempt ended. */
export type RunEnd = EventOf<
  'run.completed' | 'run.fannedOut' | 'run.failed' | 'run.dead' | 'run.cancelled' | 'run.refused' | 'run.released'
>;

/** Which occurrence `runJob` runs. */
export interface RunJobOptions {
  /** The occurrence to run: a fire time of the job's schedule, in the past. @default the last one */
  readonly fireTime?: Date;
}

/**
 * Runs one occurrence of a job now, as its schedule would: claimed, in its run's context, with receipts. For tests of
 * applications that were started with `enabled: false`.
 * @returns how the attempt ended; one that has published pages is fanned out, and `runPages` works them
 * @throws Error when there is no such job, it does not fire at `fireTime`, or the occurrence has run already
 */
export async function runJob(
  app: INestApplicationContext,
  jobName: string,
  options: RunJobOptions = {},
): Promise<RunEnd> {
  const registry = app.get(JobRegistry, { strict: false });
  const job = registry.get(jobName)?.definition;
  if (!job) throw new Error(`There is no job "${jobName}"; there are ${registry.names().join(', ') || 'none'}.`);
  const fireTime =
    options.fireTime === undefined
      ? job.schedule.previousBefore(app.get(DatabaseTime, { strict: false }).now())
      : requireFireTime(job, options.fireTime);
  if (fireTime === null) throw new Error(`Job "${jobName}" has never been due; give a fireTime.`);
  const { owned, verdicts } = await app
    .get(ClaimService, { strict: false })
    .claimDue([{ job, fireTime, startsAt: fireTime, byHand: true }]);
  if (owned.length === 0)
    throw new Error(`${jobName} of ${new Date(fireTime).toISOString()} cannot be run: it is ${verdicts[0]}.`);
  const ended = firstValueFrom(
    app
      .get(SchedulerEvents, { strict: false })
      .of('run.completed', 'run.fannedOut', 'run.failed', 'run.dead', 'run.cancelled', 'run.refused', 'run.released')
      .pipe(filter((event) => event.jobName === jobName && event.fireTime.getTime() === fireTime)),
  );
  app.get(ExecutorService, { strict: false }).start(owned);
  return ended;
}

function requireFireTime({ name, schedule }: JobDefinition, given: unknown): number {
  if (!isDate(given) || !Number.isFinite(given.getTime()))
    throw new Error(`fireTime: expected a valid Date, got ${String(given)}.`);
  const instant = given.getTime();
  const next = schedule.nextAfter(instant - 1);
  if (next === instant) return instant;
  const nearest = [schedule.previousBefore(instant), next]
    .filter((fireTime) => fireTime !== null)
    .map((fireTime) => new Date(fireTime).toISOString());
  throw new Error(
    `Job "${name}" does not fire at ${given.toISOString()}; the nearest fire times are ${nearest.join(' and ')}.`,
  );
}
