import type { OwnedRun } from '../../domain/runs/run.js';
import { fenceOf } from '../runs/fence.js';
import type { WrittenEnd } from '../runs/job-run.store.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** Lets go of a run that has published pages. */
export class FanOutStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * Completes a run that may have pages. If it has, it needs no lease and no owner from now on: the last of them ends it, and when all
   * have ended already, this does. Without pages it is done.
   * @returns null when the run is no longer ours
   */
  async complete(run: OwnedRun): Promise<WrittenEnd | null> {
    const [row] = await this.database.call<Omit<WrittenEnd, 'status'> & { status: WrittenEnd['status'] | null }>('run_fan_out_1', fenceOf(run));
    const { status, ...end } = row!;
    return status === null ? null : { status, ...end };
  }
}
