import { Injectable } from '@nestjs/common';
import { storableJson } from '../domain/runs/stored-json.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { readInDoubt, readResolution, type InDoubtFilter, type Resolution } from '../options/in-doubt-options.js';
import { AfterRegistration } from '../runtime/registration.js';
import { InDoubtStore, type EffectInDoubt, type ResolvedEffects } from '../store/receipts/in-doubt.store.js';

/** What a person does about calls outside the database that nobody knows the end of. */
@Injectable()
@AfterRegistration()
export class InDoubt {
  constructor(private readonly store: InDoubtStore) {}

  /**
   * The calls that wait for a person, the oldest first: parked ones, and those whose run has ended. Ask the receiver for the
   * idempotency key, then say what came of it: {@link resolveInDoubt}.
   * @throws InvalidOptionsError
   */
  async inDoubt(filter?: InDoubtFilter): Promise<EffectInDoubt[]> {
    const { which, limit } = readInDoubt(filter, 'SchedulerService.inDoubt');
    return this.store.find(which, limit);
  }

  /**
   * Says what came of calls in doubt. `done`: they happened, and no attempt makes them again; with the answer, if it is
   * known. `undone`: they did not, and the next attempt makes them: `replay` the run, if it has ended. Kept in `job_actions`.
   * @param filter at least one of its fields but `limit`
   * @returns those that were decided now, and how many are left; none when the filter finds nothing in doubt
   * @throws InvalidOptionsError
   */
  async resolveInDoubt(filter: InDoubtFilter, as: 'done' | 'undone', resolution: Resolution): Promise<ResolvedEffects> {
    const verb = 'SchedulerService.resolveInDoubt';
    const { which, limit, asks } = readInDoubt(filter, verb);
    if (!asks) throw new InvalidOptionsError([`${verb}: say which, as in { jobName, fireTime, entity } or { idempotencyKey }`]);
    const { as: decision, by, reason, answer } = readResolution(as, resolution, verb);
    return this.store.resolve(which, limit, decision, answer === undefined ? null : storableJson(answer), { by, reason });
  }
}
