import type { FlagOffPolicy, JobTrigger, MissedPolicy, OverlapPolicy, RetryableFunction } from '../domain/job-definition.js';
import { backoff } from './backoff-rule.js';
import { concurrencyGroup } from './concurrency-group-rule.js';
import type { DistributedCronOptions } from './job-options.js';
import { days, instantOption } from './calendar-rules.js';
import { featureFlags } from './feature-flags.js';
import { anything, duration, fileUrl, flag, functionOf, integer, names, oneOf, schemaName, text } from './option-rules.js';
import type { OptionTable, Values } from './read-options.js';
import type { DistributedSchedulerOptions } from './scheduler-options.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

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
  lateAfter: { rule: duration({ atLeast: '1s', whyLeast: 'every start is a little late' }), byDefault: 2 * MINUTE },
  lease: { rule: duration({ atLeast: '1s', whyLeast: 'a shorter one runs out while its heartbeat is on the way', ...TIMER }), byDefault: MINUTE },
  renewEvery: { rule: duration({ atLeast: '100ms', whyLeast: 'each renewal is a write', ...TIMER }) },
  jitter: { rule: duration(TIMER), byDefault: 0 },
  maxAttempts: { rule: integer({ atLeast: 1 }), byDefault: 3 },
  expectSuccessWithin: { rule: duration({ atLeast: '1s', whyLeast: 'no job succeeds more often' }) },
  backoff: { rule: backoff, byDefault: Object.freeze({ kind: 'exponential', delayMs: 5 * SECOND, maxMs: 10 * MINUTE }) },
  retryable: { rule: functionOf<RetryableFunction>('the error') },
  budget: { rule: duration({ atLeast: 1 }) },
  timeout: { rule: duration({ atLeast: 1 }) },
  maxRunTime: { rule: duration({ atLeast: 1 }), byDefault: 24 * HOUR },
} as const satisfies OptionTable;

/** Every option of a job: how it is read, and its default. `name` is by default where the job is, `renewEvery` a part of `lease`. */
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
  keepActions: { rule: duration({ atLeast: '1d', whyLeast: 'people ask the next morning who did what' }), byDefault: 400 * 24 * HOUR },
  pollInterval: { rule: duration({ atLeast: '10ms', ...TIMER }), byDefault: 5 * SECOND },
  maxClockSkew: { rule: duration({ atLeast: '100ms', whyLeast: 'the clocks cannot be compared much better' }), byDefault: 5 * SECOND },
  blockedAfter: { rule: duration({ atLeast: '100ms', whyLeast: 'every event loop stands still for that long now and then', ...TIMER }), byDefault: 5 * SECOND },
  shutdownTimeout: { rule: duration(TIMER), byDefault: 20 * SECOND },
  fastFailover: { rule: flag, byDefault: false },
  heartbeatThread: { rule: fileUrl },
  featureFlags: { rule: featureFlags },
  strict: { rule: flag, byDefault: false },
  waitForDatabase: { rule: duration(), byDefault: 0 },
  enabled: { rule: flag, byDefault: true },
  logging: { rule: flag, byDefault: true },
} as const satisfies Record<keyof DistributedSchedulerOptions, OptionTable[string]>;

/** What a job's options are once read: milliseconds, a `Backoff`. */
export type JobValues = Values<typeof JOB_OPTIONS>;

/** Those that `defaults` of the module gave, read. */
export type ResolvedJobDefaults = Readonly<Partial<Values<typeof JOB_DEFAULT_OPTIONS>>>;
