import type { RunKey, RunStatus } from '../../domain/runs/run.js';
import type { StoredError } from '../../domain/runs/stored-error.js';
import type { InDoubtWhich } from '../../options/in-doubt-options.js';
import type { Actor } from '../operations/dead-letter.store.js';
import type { ReceiptKey } from './receipt.store.js';
import type { SchedulerDatabase } from '../scheduler-database.js';
import type { Tables } from '../tables.js';

/** A call outside the database that nobody knows the end of. */
export interface EffectInDoubt extends RunKey, ReceiptKey {
  /** The one that made the call, and on which instance. */
  readonly attempt: number;
  readonly instanceId: string;
  /** When the call was about to be made. */
  readonly openedAt: Date;
  /** What the receiver knows it by. */
  readonly idempotencyKey: string;
  /** `cut off`: its process ended, or lost its run, before the answer was written. `call failed`: see `error`. */
  readonly why: 'cut off' | 'call failed';
  readonly error: StoredError | null;
  /** How its run stands; null when that row is gone. */
  readonly runStatus: RunStatus | null;
}

/** What a person has decided about. */
export interface ResolvedEffects {
  readonly effects: readonly (RunKey & ReceiptKey)[];
  /** How many more there are. */
  readonly left: number;
}

/** SQL for: of a `receipt` and its `run`, nobody will find out by itself what came of the call. */
export const inDoubt = (tables: Tables): string => `${tables.qualify('receipt_is_in_doubt_1')}(receipt.state, run.status, receipt.job_name, receipt.fire_time)`;

/** Finds calls that are in doubt, and keeps what a person says came of them. */
export class InDoubtStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /** The oldest first. */
  async find(which: InDoubtWhich, limit: number): Promise<EffectInDoubt[]> {
    const rows = await this.database.call<DoubtRow>('receipts_in_doubt_1', [...parametersOf(which), limit]);
    return rows.map((row) => ({
      jobName: row.job_name,
      fireTime: row.fire_time,
      entity: row.entity,
      effect: row.effect,
      attempt: row.attempt,
      instanceId: row.claimed_by,
      openedAt: row.opened_at,
      idempotencyKey: row.idempotency_key,
      why: row.error === null ? 'cut off' : 'call failed',
      error: row.error,
      runStatus: row.run_status,
    }));
  }

  /**
   * Keeps what a person says came of them, and records it for each. One whose call is made again, or answered, right now is
   * not changed.
   * @param answer JSON of what the receiver answered; null for nothing
   */
  async resolve(which: InDoubtWhich, limit: number, as: 'done' | 'undone', answer: string | null, { by, reason }: Actor): Promise<ResolvedEffects> {
    const values = [...parametersOf(which), limit, as, answer, by, reason];
    const [row] = await this.database.call<{ changed: [string, string, string, string][]; left_over: number }>('receipts_resolve_1', values);
    const effects = row!.changed.map(([jobName, fireTime, entity, effect]) => ({ jobName, fireTime: new Date(fireTime), entity, effect }));
    return { effects, left: row!.left_over };
  }

  /**
   * Parks the calls of runs that have ended without their answer: no attempt follows that would find them.
   * @returns those that were, by this instance
   */
  async parkEnded(limit: number): Promise<(RunKey & ReceiptKey & Pick<EffectInDoubt, 'attempt' | 'error'>)[]> {
    const rows = await this.database.call<DoubtRow>('receipts_park_ended_1', [limit]);
    return rows.map((row) => ({ jobName: row.job_name, fireTime: row.fire_time, entity: row.entity, effect: row.effect, attempt: row.attempt, error: row.error }));
  }
}

interface DoubtRow {
  readonly job_name: string;
  readonly fire_time: Date;
  readonly entity: string;
  readonly effect: string;
  readonly attempt: number;
  readonly claimed_by: string;
  readonly opened_at: Date;
  readonly idempotency_key: string;
  readonly error: StoredError | null;
  readonly run_status: RunStatus | null;
}

function parametersOf({ jobName, fireTime, from, to, entity, effect, idempotencyKey }: InDoubtWhich): (string | null)[] {
  return [jobName, fireTime?.toISOString() ?? null, from?.toISOString() ?? null, to?.toISOString() ?? null, entity, effect, idempotencyKey];
}
