import type { OverlapPolicy } from '../options/job-definition.js';
import { readObject } from '../options/operator-options.js';
import { flag, integer, oneOf, text, defaultsOf, type OptionTable, type Values } from '../options/option-rules.js';

/** Whether runs of a backfill may go on beside others of their job. */
export type BackfillOverlap = 'forbid' | 'allow';

/** How a backfill is done. */
export interface BackfillOptions {
  /** Only say what would happen, and write nothing. @default false */
  dryRun?: boolean;
  /** How many of its runs go on at a time, over all replicas. More than 1 needs `overlap: 'allow'`. @default 1 */
  maxConcurrent?: number;
  /**
   * `allow`: its runs may go on beside each other and beside the job's own, and those beside them. `forbid`: one after
   * the other, each started when nothing else of the job runs. Where the job itself forbids overlap they are not
   * started when an occurrence is due, or nearer than they are likely to take; one that comes due all the same waits
   * for the run in hand.
   * @default the job's own policy
   */
  overlap?: BackfillOverlap;
  /** Also run what has run already, with the same receipts and idempotency keys. @default false */
  replay?: boolean;
  /** The most occurrences the range may have. @default 10000 */
  atMost?: number;
  /** Who asks, for those who look at it later. */
  by?: string;
  /** The same as `by`. */
  requestedBy?: string;
  /** Why. */
  reason?: string;
}

/** Who ends a backfill early, and why. */
export interface CancelOptions {
  by?: string;
  reason?: string;
}

const BACKFILL_OPTIONS = {
  dryRun: { rule: flag, byDefault: false },
  maxConcurrent: { rule: integer({ atLeast: 1, atMost: 1_000 }), byDefault: 1 },
  overlap: { rule: oneOf<BackfillOverlap>('forbid', 'allow') },
  replay: { rule: flag, byDefault: false },
  atMost: { rule: integer({ atLeast: 1 }), byDefault: 10_000 },
  by: { rule: text(200) },
  requestedBy: { rule: text(200) },
  reason: { rule: text(1_000) },
} as const satisfies Record<keyof BackfillOptions, OptionTable[string]>;

const CANCEL_OPTIONS = { by: { rule: text(200) }, reason: { rule: text(1_000) } } as const satisfies Record<
  keyof CancelOptions,
  OptionTable[string]
>;

/** A backfill's options, every default filled in. */
export type ResolvedBackfillOptions = Required<
  Omit<Values<typeof BACKFILL_OPTIONS>, 'by' | 'requestedBy' | 'reason'>
> & {
  readonly requestedBy: string | null;
  readonly reason: string | null;
};

/** @param overlap the job's own policy */
export function readBackfillOptions(
  given: unknown,
  overlap: OverlapPolicy,
): { options: ResolvedBackfillOptions; problems: readonly string[] } {
  const {
    values: { by, ...values },
    problems: unread,
  } = readObject(given, BACKFILL_OPTIONS);
  const isTwice = by !== undefined && values.requestedBy !== undefined && by !== values.requestedBy;
  const problems = isTwice ? [...unread, 'by, requestedBy: they are the same, and differ here: give one.'] : unread;
  const ofJob: BackfillOverlap = overlap === 'allow' ? 'allow' : 'forbid';
  const options = { ...defaultsOf(BACKFILL_OPTIONS), overlap: ofJob, requestedBy: by ?? null, reason: null, ...values };
  if (options.maxConcurrent === 1 || options.overlap === 'allow') return { options, problems };
  const forbids = values.overlap === undefined ? 'the job forbids overlap' : `overlap is 'forbid'`;
  return {
    options,
    problems: [
      ...problems,
      `maxConcurrent: ${options.maxConcurrent} at a time need overlap: 'allow', for ${forbids} and its runs go one after the other.`,
    ],
  };
}

/** Who cancels, and why; null where it was not said. */
export function readCancelOptions(given: unknown): {
  by: string | null;
  reason: string | null;
  problems: readonly string[];
} {
  const { values, problems } = readObject(given, CANCEL_OPTIONS);
  return { by: values.by ?? null, reason: values.reason ?? null, problems };
}
