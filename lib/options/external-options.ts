import type { InDoubtPolicy } from '../domain/effects/external-effect.js';
import { neverConnected } from '../domain/effects/never-connected.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { readObject } from './operation-options.js';
import { anything, expected, functionOf, oneOf, type Rule } from './option-rules.js';
import type { OptionTable } from './read-options.js';

/** How an effect outside the database is told from others on its entity, and what becomes of it when nobody knows whether it happened. */
export interface OnceExternalOptions {
  /** Tells several effects on one entity in one occurrence apart. @default 'default' */
  readonly effect?: string;
  /**
   * `'park'`: a person finds out and decides. `'resend'`: the next attempt sends it again under the same key, which the
   * receiver must know and drop.
   */
  readonly inDoubt: InDoubtPolicy;
  /**
   * Whether what the call threw says that the effect surely did not happen, so that the next attempt may make the call.
   * `EffectNotDone` always says so.
   * @default neverConnected
   */
  readonly notDone?: (error: unknown) => boolean;
}

const POLICY: Rule<InDoubtPolicy> = oneOf<InDoubtPolicy>('park', 'resend');

const OPTIONS = {
  effect: { rule: anything as Rule<string> },
  inDoubt: { rule: (given) => (given === null ? expected(`what is to become of a call when nobody knows whether it got through, "park" or "resend"`, undefined) : POLICY(given)) },
  notDone: { rule: functionOf<(error: unknown) => boolean>('what the call threw') },
} as const satisfies Record<keyof OnceExternalOptions, OptionTable[string]>;

/** @throws InvalidOptionsError with every problem */
export function readExternalOptions(given: OnceExternalOptions): { effect: string | undefined; inDoubt: InDoubtPolicy; notDone: (error: unknown) => boolean } {
  const isObject = typeof given === 'object' && given !== null;
  // Left out, it is told as what is wrong with it, beside everything else.
  const { values, problems } = readObject(isObject ? { ...given, inDoubt: given.inDoubt ?? null } : (given ?? null), OPTIONS);
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `ReceiptService.onceExternal: ${problem}`));
  return { effect: values.effect, inDoubt: values.inDoubt!, notDone: values.notDone ?? neverConnected };
}
