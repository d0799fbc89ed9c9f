import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { instant, knownAs, storable } from './operation-rules.js';
import { readObject } from './operation-options.js';
import { anything, expected, integer, text, type Rule } from './option-rules.js';
import { readOperator, type Operator } from './operator.js';
import type { OptionTable } from './read-options.js';

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
export type InDoubtWhich = { readonly [Name in Exclude<keyof InDoubtFilter, 'limit'>]-?: (Name extends 'fireTime' | 'from' | 'to' ? Date : string) | null };

const named: Rule<string> = (given) => {
  const name = typeof given === 'bigint' || (typeof given === 'number' && Number.isFinite(given)) ? String(given) : given;
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

const DECISION: Rule<'done' | 'undone'> = (given) => (given === 'done' || given === 'undone' ? { value: given } : expected('"done" or "undone"', given));

/** @throws InvalidOptionsError with every problem */
export function readInDoubt(given: InDoubtFilter | undefined, verb: string): { which: InDoubtWhich; limit: number; asks: boolean } {
  const { values, problems } = readObject(given, FILTER);
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${verb}: ${problem}`));
  const { limit = 100, jobName = null, fireTime = null, from = null, to = null, entity = null, effect = null, idempotencyKey = null } = values;
  const which = { jobName, fireTime, from, to, entity, effect, idempotencyKey };
  return { which, limit, asks: Object.values(which).some((value) => value !== null) };
}

/** @throws InvalidOptionsError */
export function readResolution(as: unknown, given: Resolution | undefined, verb: string): { as: 'done' | 'undone'; by: string; reason: string; answer: unknown } {
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
