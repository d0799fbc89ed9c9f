import { Inject, Injectable } from '@nestjs/common';
import { SCHEDULER_OPTIONS } from '../options/tokens.js';
import { describeError } from '../errors/stored-error.js';
import { SchedulerEvents } from '../observe/scheduler-events.js';
import type { FeatureFlags } from '../options/scheduler-options.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { inCleanContext } from '../database/loop.js';
import { monotonicNow } from '../database/clock.js';

/** Claims wait for the provider: of all jobs, not only of those with a flag. */
const ANSWER_WITHIN_MS = 1_000;

/** A question without an answer is not asked again for so long: meanwhile the flag is off, and nothing waits. */
const UNANSWERED_MS = 10_000;

/** An answer that people look at may be so old. */
const SHOWN_MS = 10_000;

/** What the application's provider said about a flag when it was asked last, on this instance. */
export interface FlagAnswer {
  readonly on: boolean;
  /** What went wrong with the question: then the flag is off. */
  readonly problem: string | null;
  /** By this machine's clock. */
  readonly askedAt: Date;
}

/** Why flags are off, by their names; those that are on are left out. */
export type FlagsOff = ReadonlyMap<string | null, string>;

const NONE: FlagsOff = new Map();

/**
 * What the application's own provider says about flags. Who does not know whether money may be moved moves none: a
 * provider that throws, or hangs, has said that the flag is off.
 */
@Injectable()
export class FlagAnswers {
  private readonly provider: FeatureFlags | null;
  /** By flag: when the question was asked that has no answer yet. */
  private readonly open = new Map<string, number>();
  private readonly last = new Map<string, FlagAnswer & { readonly at: number }>();
  private failures = 0;

  constructor(
    @Inject(SCHEDULER_OPTIONS) options: Pick<ResolvedSchedulerOptions, 'featureFlags'>,
    private readonly events: SchedulerEvents,
  ) {
    this.provider = options.featureFlags;
  }

  /** @param flags may have null, for a job without one */
  async off(flags: readonly (string | null)[]): Promise<FlagsOff> {
    const { provider } = this;
    const names = [...new Set(flags.filter((flag) => flag !== null))];
    if (!provider || names.length === 0) return NONE;
    const answers = await Promise.all(names.map(async (name) => [name, await this.ask(provider, name)] as const));
    return new Map(answers.flatMap(([name, reason]) => (reason === null ? [] : [[name, reason] as const])));
  }

  /** For people: what was said lately, or is said now. @returns nothing without a provider */
  async shown(flags: readonly string[]): Promise<ReadonlyMap<string, FlagAnswer>> {
    const old = flags.filter((flag) => monotonicNow() - (this.last.get(flag)?.at ?? -Infinity) >= SHOWN_MS);
    await this.off(old);
    return new Map(
      flags.flatMap((flag) => {
        const known = this.last.get(flag);
        return known ? [[flag, { on: known.on, problem: known.problem, askedAt: known.askedAt }] as const] : [];
      }),
    );
  }

  /** @returns why it is off, or null */
  private async ask(provider: FeatureFlags, name: string): Promise<string | null> {
    const asked = this.open.get(name);
    if (asked !== undefined && monotonicNow() - asked < UNANSWERED_MS)
      return `flag off: ${name} (its provider does not answer)`;
    const now = monotonicNow();
    this.open.set(name, now);
    const askedAt = new Date();
    const keep = (on: boolean, problem: string | null) => void this.last.set(name, { on, problem, askedAt, at: now });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(new Error(`no answer about the flag "${name}" within ${ANSWER_WITHIN_MS} ms`)),
        ANSWER_WITHIN_MS,
      );
      timer.unref();
    });
    // Its answer holds for everybody, not for the request that happens to ask.
    const answer = inCleanContext(() => Promise.resolve().then(() => provider.isOn(name)));
    const close = () => void (this.open.get(name) === now && this.open.delete(name));
    answer.then(close, close);
    try {
      const on = (await Promise.race([answer, late])) === true;
      this.answered();
      keep(on, null);
      return on ? null : `flag off: ${name}`;
    } catch (error) {
      this.failures += 1;
      const described = describeError(error);
      keep(false, described.message);
      this.events.emit({
        type: 'loop.failed',
        loop: 'feature flag provider',
        error: described,
        failures: this.failures,
      });
      return `flag off: ${name} (its provider failed)`;
    } finally {
      clearTimeout(timer);
    }
  }

  private answered(): void {
    if (this.failures > 0) this.events.emit({ type: 'loop.recovered', loop: 'feature flag provider' });
    this.failures = 0;
  }
}
