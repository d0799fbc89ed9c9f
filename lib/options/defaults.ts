import { parseDuration } from './duration.js';
import type {
  Backoff,
  BackoffFunction,
  ConcurrencyGroup,
  FlagOffPolicy,
  JobTrigger,
  MissedPolicy,
  OverlapPolicy,
  RetryableFunction,
  DistributedCronOptions,
} from './job-definition.js';
import {
  anything,
  duration,
  expected,
  fileUrl,
  flag,
  functionOf,
  integer,
  interceptorList,
  names,
  oneOf,
  type Rule,
  schemaName,
  text,
  type OptionTable,
  readOptions,
  type Values,
} from './option-rules.js';
import type { DistributedSchedulerOptions, FeatureFlags } from './scheduler-options.js';

/** The longest wait of a growing backoff that does not name its own `max`. */
const LONGEST_GROWN_MS = 600_000;

const FORMS = { delay: { rule: duration({ atLeast: 1 }) }, max: { rule: duration({ atLeast: 1 }) } };

/** Every form of `BackoffOptions`. */
export const backoff: Rule<Backoff> = (given) => {
  if (typeof given === 'function')
    return { value: Object.freeze({ kind: 'function', delay: given as BackoffFunction }) };
  if (parseDuration(given) !== null) {
    const delay = duration()(given);
    return 'value' in delay ? { value: Object.freeze({ kind: 'fixed', delayMs: delay.value }) } : delay;
  }
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    return expected('a duration, { delay, max } or a function', given);
  }
  const { values, problems } = readOptions(given, FORMS, '');
  if (problems.length > 0) return { problem: problems.join('; ') };
  if (values.delay === undefined) return { problem: 'expected a delay, as in { delay: "5s", max: "10m" }' };
  const maxMs = values.max ?? Math.max(values.delay, LONGEST_GROWN_MS);
  if (maxMs < values.delay) return { problem: 'expected max to be at least delay' };
  return { value: Object.freeze({ kind: 'exponential', delayMs: values.delay, maxMs }) };
};

const WITH_OFFSET = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})$/;

/** A Date, or ISO 8601 with an offset: without one it would be another instant on another machine. */
const instantOption: Rule<Date> = (given) => {
  const date =
    given instanceof Date ? given : typeof given === 'string' && WITH_OFFSET.test(given) ? new Date(given) : null;
  if (date && Math.abs(date.getTime()) < 8e15) return { value: date };
  return expected('a Date, or a text such as "2026-12-24T18:00:00+01:00"', date ? String(given) : given);
};

/** One day or expression, or a list of them; what they say is read with the schedule. */
export const days: Rule<readonly string[]> = (given) => {
  const list: unknown[] = Array.isArray(given) ? given : [given];
  const wrong = list.find((item) => typeof item !== 'string' || item.trim() === '');
  return wrong === undefined && list.length > 0
    ? { value: list as string[] }
    : expected(
        'a date such as "2026-12-25", a cron expression such as "* * 25 12 *", or a list of them',
        wrong ?? given,
      );
};

const PARTS = { name: { rule: text(200) }, limit: { rule: integer({ atLeast: 1 }) } };

/** A name and a limit, both given. */
export const concurrencyGroup: Rule<ConcurrencyGroup> = (given) => {
  const example = '{ name, limit }, as in { name: "exports", limit: 2 }';
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return expected(example, given);
  const { values, problems } = readOptions(given, PARTS, '');
  if (problems.length > 0) return { problem: problems.join('; ') };
  const { name, limit } = values;
  return name === undefined || limit === undefined
    ? { problem: `expected ${example}` }
    : { value: Object.freeze({ name, limit }) };
};

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/**
 * Between these an occurrence without a `lateAfter` is merely late until the following one is due. A reconnect, or an
 * event loop that was blocked, takes less than the one, and costs no occurrence.
 */
export const LEAST_LATE_MS = 5 * SECOND;
export const MOST_LATE_MS = 2 * MINUTE;

/** Node.js timers fire at once when they are set to more than 24.8 days. */
const TIMER = { atMost: '24d', whyMost: 'timers take no more' } as const;

const POLICIES = {
  timeZone: { rule: text(100), byDefault: 'UTC' },
  exclude: { rule: days },
  trigger: { rule: oneOf<JobTrigger>('schedule', 'external') },
  fallback: { rule: duration({ atLeast: '1s', whyLeast: 'what is delivered on time is on its way' }) },
  flag: { rule: text(200) },
  flagOff: { rule: oneOf<FlagOffPolicy>('finish', 'cancel'), byDefault: 'finish' },
  overlap: { rule: oneOf<OverlapPolicy>('forbid', 'queue', 'replace', 'allow'), byDefault: 'forbid' },
  queueLimit: { rule: integer({ atLeast: 1 }), byDefault: 100 },
  maxParallel: { rule: integer({ atLeast: 1 }) },
  concurrencyGroup: { rule: concurrencyGroup },
  missed: { rule: oneOf<MissedPolicy>('skip', 'once', 'all'), byDefault: 'once' },
  catchUpWindow: { rule: duration(), byDefault: 24 * HOUR },
  maxCatchUp: { rule: integer({ atLeast: 1 }), byDefault: 100 },
  lateAfter: { rule: duration({ atLeast: '1s', whyLeast: 'every start is a little late' }) },
  lease: {
    rule: duration({ atLeast: '1s', whyLeast: 'a shorter one runs out while its heartbeat is on the way', ...TIMER }),
    byDefault: MINUTE,
  },
  renewEvery: { rule: duration({ atLeast: '100ms', whyLeast: 'each renewal is a write', ...TIMER }) },
  jitter: { rule: duration(TIMER), byDefault: 0 },
  maxAttempts: { rule: integer({ atLeast: 1 }), byDefault: 3 },
  expectSuccessWithin: { rule: duration({ atLeast: '1s', whyLeast: 'no job succeeds more often' }) },
  backoff: {
    rule: backoff,
    byDefault: Object.freeze({ kind: 'exponential', delayMs: 5 * SECOND, maxMs: 10 * MINUTE }),
  },
  retryable: { rule: functionOf<RetryableFunction>('the error') },
  budget: { rule: duration({ atLeast: 1 }) },
  timeout: { rule: duration({ atLeast: 1 }) },
  maxRunTime: { rule: duration({ atLeast: 1 }), byDefault: 24 * HOUR },
} as const satisfies OptionTable;

/**
 * Every option of a job: how it is read, and its default. `name` is by default where the job is, `renewEvery` a part of
 * `lease`.
 */
export const JOB_OPTIONS = {
  name: { rule: text(200) },
  previously: { rule: names },
  owner: { rule: text(200) },
  startAt: { rule: instantOption },
  endAt: { rule: instantOption },
  ...POLICIES,
} as const satisfies Record<keyof DistributedCronOptions, OptionTable[string]>;

/** The options of a job that can be given once for all. */
export const JOB_DEFAULT_OPTIONS = POLICIES;

const featureFlags: Rule<FeatureFlags> = (given) =>
  typeof given === 'object' && given !== null && typeof (given as FeatureFlags).isOn === 'function'
    ? { value: given as FeatureFlags }
    : expected('an object with the method isOn', given);

/** Every option of the module. The first four are read by `resolveSchedulerOptions`, each as a whole. */
export const MODULE_OPTIONS = {
  connection: { rule: anything },
  dataSource: { rule: anything },
  defaults: { rule: anything },
  alerts: { rule: anything },
  schema: { rule: schemaName, byDefault: 'public' },
  application: { rule: text(200) },
  migrate: { rule: flag },
  maxConcurrentRuns: { rule: integer({ atLeast: 1, whyLeast: 'enabled: false claims nothing' }), byDefault: 20 },
  poolSize: { rule: integer({ atLeast: 1 }), byDefault: 3 },
  receiptPoolSize: { rule: integer({ atLeast: 1 }), byDefault: 5 },
  retention: { rule: duration({ atLeast: '1d', whyLeast: 'a row is what keeps its occurrence from running again' }) },
  keepActions: {
    rule: duration({ atLeast: '1d', whyLeast: 'people ask the next morning who did what' }),
    byDefault: 400 * 24 * HOUR,
  },
  pollInterval: { rule: duration({ atLeast: '10ms', ...TIMER }), byDefault: 5 * SECOND },
  maxClockSkew: {
    rule: duration({ atLeast: '100ms', whyLeast: 'the clocks cannot be compared much better' }),
    byDefault: 5 * SECOND,
  },
  blockedAfter: {
    rule: duration({
      atLeast: '100ms',
      whyLeast: 'every event loop stands still for that long now and then',
      ...TIMER,
    }),
    byDefault: 5 * SECOND,
  },
  shutdownTimeout: { rule: duration(TIMER), byDefault: 20 * SECOND },
  fastFailover: { rule: flag, byDefault: false },
  heartbeatThread: { rule: fileUrl },
  featureFlags: { rule: featureFlags },
  interceptors: { rule: interceptorList },
  strict: { rule: flag, byDefault: false },
  waitForDatabase: { rule: duration(), byDefault: 0 },
  enabled: { rule: flag, byDefault: true },
  logging: { rule: flag, byDefault: true },
} as const satisfies Record<keyof DistributedSchedulerOptions, OptionTable[string]>;

/** What a job's options are once read: milliseconds, a `Backoff`. */
export type JobValues = Values<typeof JOB_OPTIONS>;

/** Those that `defaults` of the module gave, read. */
export type ResolvedJobDefaults = Readonly<Partial<Values<typeof JOB_DEFAULT_OPTIONS>>>;
