import { Injectable } from '@nestjs/common';
import { AfterRunError } from '../errors/run.errors.js';
import { RunStateError } from '../errors/run.errors.js';
import { ShutdownError } from '../errors/run.errors.js';
import { monotonicNow } from '../database/clock.js';
import { HeartbeatService } from './heartbeat/heartbeat.service.js';
import type { InFlightRun } from './in-flight-runs.js';
import { RunEndings } from './run-endings.service.js';

const BY_ITS_HANDLER = 'released by its handler';

/** Of what a handler says, in characters. */
const LONGEST_REASON = 500;

/**
 * Hands runs over to other instances before their handlers have ended, because the handlers say that they do no more.
 * Only when the application stops: an attempt that is handed over does not count, so a handler that always did it would
 * run for ever.
 */
@Injectable()
export class HandOver {
  constructor(
    private readonly endings: RunEndings,
    private readonly heartbeat: HeartbeatService,
  ) {}

  /**
   * @returns false when the run is no longer ours to hand over: its lease is lost, or it was cancelled or timed out
   * @throws RunStateError while nothing asks the handler to stop, AfterRunError when it has ended
   */
  async release(run: InFlightRun, reason?: string): Promise<boolean> {
    if (run.handedOver) return run.handedOver;
    if (run.ended) throw new AfterRunError('CronRun.release', run.owned);
    if (!run.signal.aborted) {
      throw new RunStateError(
        'release',
        run.owned,
        'running',
        'its application is not stopping; throw new RetryLater() for another attempt later',
      );
    }
    if (run.leaseLost || !(run.stopReason instanceof ShutdownError)) return false;
    run.handedOver = this.write(run, reason);
    run.track(run.handedOver);
    return run.handedOver;
  }

  private async write(run: InFlightRun, reason?: string): Promise<boolean> {
    const said = String(reason ?? '')
      .replaceAll('\0', '')
      .slice(0, LONGEST_REASON)
      .toWellFormed();
    const outcome = { kind: 'released', reason: said ? `${BY_ITS_HANDLER}: ${said}` : BY_ITS_HANDLER } as const;
    const written = await this.endings.write(run, outcome, monotonicNow() - run.startedAt);
    this.heartbeat.forget(run);
    return written?.status === 'queued';
  }
}
