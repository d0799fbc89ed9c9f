import { Injectable } from '@nestjs/common';
import { AfterRegistration } from '../database/registration.js';
import { unlessBusy } from '../database/retry.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import type { Tables } from '../database/tables.js';
import { InvalidOptionsError } from '../errors/errors.js';
import { storableJson, type StoredError } from '../errors/stored-error.js';
import { instant, knownAs, type Operator, readObject, readOperator, storable } from '../options/operator-options.js';
import { anything, expected, integer, type Rule, text, type OptionTable } from '../options/option-rules.js';
import type { ReceiptKey, RunKey, RunStatus } from '../options/run.js';
import { resultToKeep } from '../receipts/receipt.repository.js';
import type { Actor } from './dead-letters.service.js';

/** Which calls in doubt are meant; what is left out is not asked for. */
export interface InDoubtFilter {
  readonly jobName?: string;
  /** Of one run. */
  readonly fireTime?: Date;
  /** The earliest fire time. */
  readonly from?: Date;
  /** The latest fire time. */
  readonly to?: Date;
  readonly entity?: string | number | bigint;
  readonly effect?: string;
  /** What the receiver knows it by. */
  readonly idempotencyKey?: string;
  /** How many at most; 1 to 1000. @default 100 */
  readonly limit?: number;
}

/** Who says what came of a call, why, and what the receiver answered. */
export interface Resolution extends Operator {
  /** How that was found out. */
  readonly reason: string;
  /** What `onceExternal` gives as the result from now on; JSON. Only for `done`. */
  readonly answer?: unknown;
}

/** A filter that was read: what is null is not asked for. */
export type InDoubtWhich = {
  readonly [Name in Exclude<keyof InDoubtFilter, 'limit'>]-?:
    | (Name extends 'fireTime' | 'from' | 'to' ? Date : string)
    | null;
};

const named: Rule<string> = (given) => {
  const name =
    typeof given === 'bigint' || (typeof given === 'number' && Number.isFinite(given)) ? String(given) : given;
  return typeof name === 'string' && name !== '' && !name.includes('\0') ? { value: name } : expected('a name', given);
};

const FILTER = {
  jobName: { rule: knownAs },
  fireTime: { rule: instant },
  from: { rule: instant },
  to: { rule: instant },
  entity: { rule: named },
  effect: { rule: named },
  idempotencyKey: { rule: text(200) },
  limit: { rule: integer({ atLeast: 1, atMost: 1_000 }) },
} as const satisfies Record<keyof InDoubtFilter, OptionTable[string]>;

const DECISION: Rule<'done' | 'undone'> = (given) =>
  given === 'done' || given === 'undone' ? { value: given } : expected('"done" or "undone"', given);

/** @throws InvalidOptionsError with every problem */
export function readInDoubt(
  given: InDoubtFilter | undefined,
  verb: string,
): { which: InDoubtWhich; limit: number; asks: boolean } {
  const { values, problems } = readObject(given, FILTER);
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${verb}: ${problem}`));
  const {
    limit = 100,
    jobName = null,
    fireTime = null,
    from = null,
    to = null,
    entity = null,
    effect = null,
    idempotencyKey = null,
  } = values;
  const which = { jobName, fireTime, from, to, entity, effect, idempotencyKey };
  return { which, limit, asks: Object.values(which).some((value) => value !== null) };
}

/** @throws InvalidOptionsError */
export function readResolution(
  as: unknown,
  given: Resolution | undefined,
  verb: string,
): { as: 'done' | 'undone'; by: string; reason: string; answer: unknown } {
  const isObject = typeof given === 'object' && given !== null;
  const { answer, ...operator } = (isObject ? given : {}) as Partial<Resolution>;
  const { by, reason } = readOperator((isObject ? operator : given) as Operator, verb);
  const decision = DECISION(as);
  const kept = answer === undefined ? anything(answer) : storable(answer);
  const problems = [
    ...('problem' in decision ? [decision.problem] : []),
    ...(reason === null ? [`reason: say how you found out, as in { by: '${by}', reason: '…' }`] : []),
    ...('problem' in kept ? [`answer: ${kept.problem}`] : []),
    ...(answer !== undefined && as === 'undone' ? ['answer: what was not done has none'] : []),
  ];
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${verb}: ${problem}`));
  return { as: as as 'done' | 'undone', by, reason: reason!, answer };
}

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
export const inDoubt = (tables: Tables): string =>
  `${tables.qualify('receipt_is_in_doubt_1')}(receipt.state, run.status, receipt.job_name, receipt.fire_time)`;

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
   * Keeps what a person says came of them, and records it for each. One whose call is made again, or answered, right
   * now is not changed.
   * @param answer JSON of what the receiver answered; null for nothing
   */
  async resolve(
    which: InDoubtWhich,
    limit: number,
    as: 'done' | 'undone',
    answer: string | null,
    { by, reason }: Actor,
  ): Promise<ResolvedEffects> {
    const values = [...parametersOf(which), limit, as, resultToKeep(answer), by, reason];
    const [row] = await unlessBusy('resolve', 'a call in doubt', () =>
      this.database.call<{ changed: [string, string, string, string][]; left_over: number }>(
        'receipts_resolve_1',
        values,
      ),
    );
    const effects = row!.changed.map(([jobName, fireTime, entity, effect]) => ({
      jobName,
      fireTime: new Date(fireTime),
      entity,
      effect,
    }));
    return { effects, left: row!.left_over };
  }

  /**
   * Parks the calls of runs that have ended without their answer: no attempt follows that would find them.
   * @returns those that were, by this instance
   */
  async parkEnded(limit: number): Promise<(RunKey & ReceiptKey & Pick<EffectInDoubt, 'attempt' | 'error'>)[]> {
    const rows = await this.database.call<DoubtRow>('receipts_park_ended_1', [limit]);
    return rows.map((row) => ({
      jobName: row.job_name,
      fireTime: row.fire_time,
      entity: row.entity,
      effect: row.effect,
      attempt: row.attempt,
      error: row.error,
    }));
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

function parametersOf({
  jobName,
  fireTime,
  from,
  to,
  entity,
  effect,
  idempotencyKey,
}: InDoubtWhich): (string | null)[] {
  return [
    jobName,
    fireTime?.toISOString() ?? null,
    from?.toISOString() ?? null,
    to?.toISOString() ?? null,
    entity,
    effect,
    idempotencyKey,
  ];
}

/** What a person does about calls outside the database that nobody knows the end of. */
@Injectable()
@AfterRegistration()
export class InDoubt {
  constructor(private readonly store: InDoubtStore) {}

  /** See `SchedulerService.inDoubt`. */
  async inDoubt(filter?: InDoubtFilter): Promise<EffectInDoubt[]> {
    const { which, limit } = readInDoubt(filter, 'SchedulerService.inDoubt');
    return this.store.find(which, limit);
  }

  /** See `SchedulerService.resolveInDoubt`. */
  async resolveInDoubt(filter: InDoubtFilter, as: 'done' | 'undone', resolution: Resolution): Promise<ResolvedEffects> {
    const verb = 'SchedulerService.resolveInDoubt';
    const { which, limit, asks } = readInDoubt(filter, verb);
    if (!asks)
      throw new InvalidOptionsError([`${verb}: say which, as in { jobName, fireTime, entity } or { idempotencyKey }`]);
    const { as: decision, by, reason, answer } = readResolution(as, resolution, verb);
    return this.store.resolve(which, limit, decision, answer === undefined ? null : storableJson(answer), {
      by,
      reason,
    });
  }
}
