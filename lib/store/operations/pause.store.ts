import { InvalidOptionsError } from '../../errors/invalid-options.error.js';
import { carryOut } from './carry-out.js';
import type { ReadOperator } from './operated-job.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** A pause as it is stored. `until` is null for one that lasts until somebody resumes the job. */
export interface Pause {
  readonly since: Date;
  readonly until: Date | null;
}

/** Holds jobs back, and lets them go on. The table's own trigger keeps what a hold covered, once it is over. */
export class PauseStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** A job that is paused gets another pause, from now on; the first is kept as an earlier one. */
  async pause(jobName: string, until: Date | null, { by, reason }: ReadOperator): Promise<Pause> {
    const end = until?.toISOString() ?? null;
    const details = end && JSON.stringify({ until: end });
    const { verdict, facts } = await carryOut<{ since: string; until: string | null }>(this.database, 'job_pause_1', [jobName, end, by, reason, details], { verb: 'pause', jobName });
    if (verdict === 'over') throw new InvalidOptionsError([`SchedulerService.pause: until: ${end} is over already`]);
    return { since: new Date(facts.since), until: facts.until === null ? null : new Date(facts.until) };
  }

  /** @returns false when it was not paused */
  async resume(jobName: string, { by, reason }: ReadOperator): Promise<boolean> {
    const { verdict } = await carryOut(this.database, 'job_resume_1', [jobName, by, reason], { verb: 'resume', jobName });
    return verdict === 'changed';
  }

  /** @returns false when it was so already */
  async setEnabled(jobName: string, enabled: boolean, { by, reason }: ReadOperator): Promise<boolean> {
    const { verdict } = await carryOut(this.database, 'job_set_enabled_1', [jobName, enabled, by, reason], { verb: enabled ? 'enable' : 'disable', jobName });
    return verdict === 'changed';
  }
}
