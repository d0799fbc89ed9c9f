import type { Duration } from '../options/duration.js';
import { InvalidOptionsError } from '../errors/errors.js';
import { readObject } from '../options/operator-options.js';
import { duration, expected, flag, schemaName, type Rule, type OptionTable } from '../options/option-rules.js';

/** Where BullMQ keeps its queues, and how. Without any: in the scheduler's own database. */
export interface BullMqOptions {
  /** A Redis instead of PostgreSQL: its URL, or options of `ioredis`, which has to be installed. */
  redis?: string | Readonly<Record<string, unknown>>;
  /**
   * Another PostgreSQL, or another way to the scheduler's: its URL, or options of pg's `Pool`. BullMQ listens for
   * notifications, so behind a pooler in transaction mode it needs a way past it. @default the scheduler's connection
   */
  connection?: string | Readonly<Record<string, unknown>>;
  /** The schema of BullMQ's own tables, with PostgreSQL. @default 'bullmq' */
  schema?: string;
  /** Whether BullMQ makes its tables at start-up, with PostgreSQL. @default what the scheduler does with its own */
  migrate?: boolean;
  /**
   * How long a worker may be silent before its page is delivered again; twice that at most. 1 s to 1 h. @default '30s'
   */
  redeliverAfter?: Duration;
}

/** Read, every default filled in but those that the scheduler has. */
export interface ResolvedBullMqOptions {
  readonly redis: Readonly<Record<string, unknown>> | null;
  readonly connection: Readonly<Record<string, unknown>> | null;
  readonly schema: string;
  readonly migrate: boolean | null;
  readonly redeliverAfterMs: number;
}

/** A URL, under the name that a library has for it, or options. */
function address(url: string, protocols: readonly string[]): Rule<Readonly<Record<string, unknown>>> {
  return (given) => {
    if (typeof given === 'object' && given !== null && !Array.isArray(given))
      return { value: given as Record<string, unknown> };
    const usable = typeof given === 'string' && protocols.some((protocol) => given.startsWith(`${protocol}://`));
    return usable
      ? { value: { [url]: given } }
      : expected(
          `a URL (${protocols.join(', ')}) or an object of options`,
          typeof given === 'string' ? 'another text' : given,
        );
  };
}

const OPTIONS = {
  redis: { rule: address('url', ['redis', 'rediss']) },
  connection: { rule: address('connectionString', ['postgres', 'postgresql']) },
  schema: { rule: schemaName },
  migrate: { rule: flag },
  redeliverAfter: {
    rule: duration({ atLeast: '1s', whyLeast: 'workers say at a third of it that they are there', atMost: '1h' }),
  },
} as const satisfies Record<keyof BullMqOptions, OptionTable[string]>;

/** @throws InvalidOptionsError with every problem */
export function readBullMqOptions(given: BullMqOptions | undefined): ResolvedBullMqOptions {
  const { values, problems } = readObject(given, OPTIONS);
  const { redis = null, connection = null, schema = 'bullmq', migrate = null, redeliverAfter = 30_000 } = values;
  const both = redis !== null && connection !== null ? ['redis and connection: give one of them.'] : [];
  const all = [...problems, ...both];
  if (all.length > 0) throw new InvalidOptionsError(all.map((problem) => `DistributedCronBullMqModule: ${problem}`));
  return { redis, connection, schema, migrate, redeliverAfterMs: redeliverAfter };
}
