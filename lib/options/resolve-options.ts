import { InvalidOptionsError } from '../errors/errors.js';
import { resolveAlerts, type ResolvedAlertOptions } from './alert-options.js';
import { JOB_DEFAULT_OPTIONS, MODULE_OPTIONS, type ResolvedJobDefaults } from './defaults.js';
import type { FeatureFlags } from './feature-flags.js';
import { problemsBetween, resolvePolicies } from './job-policies.js';
import { expected } from './option-rules.js';
import { defaultsOf, readOptions } from './read-options.js';
import { problemsOfExclude, problemsOfZone } from './read-schedule.js';
import { resolveConnection, type ConnectionSource, type Environment } from './resolve-connection.js';
import type { DistributedSchedulerOptions } from './scheduler-options.js';

/** The module's options, every default filled in, frozen. Durations are in milliseconds. */
export interface ResolvedSchedulerOptions {
  readonly connection: ConnectionSource;
  readonly schema: string;
  /** Null: unknown. */
  readonly application: string | null;
  readonly migrate: boolean;
  /** For `resolveJob`. */
  readonly jobDefaults: ResolvedJobDefaults;
  readonly maxConcurrentRuns: number;
  readonly poolSize: number;
  readonly receiptPoolSize: number;
  /** Null: for ever. */
  readonly retentionMs: number | null;
  readonly keepActionsMs: number;
  readonly pollIntervalMs: number;
  readonly maxClockSkewMs: number;
  readonly blockedAfterMs: number;
  readonly fastFailover: boolean;
  /** Null: beside the code that starts it. */
  readonly heartbeatThread: URL | null;
  readonly shutdownTimeoutMs: number;
  /** Null: the table alone decides. */
  readonly featureFlags: FeatureFlags | null;
  readonly strict: boolean;
  readonly waitForDatabaseMs: number;
  readonly alerts: ResolvedAlertOptions;
  readonly enabled: boolean;
  readonly logging: boolean;
}

/**
 * Reads what was given to `forRoot()`, once.
 * @throws InvalidOptionsError with every problem
 */
export function resolveSchedulerOptions(
  given: DistributedSchedulerOptions | undefined,
  environment: Environment,
): ResolvedSchedulerOptions {
  if (given !== undefined && !isObject(given)) fail([expected('an object of options', given).problem]);
  const options = given ?? {};
  const { values, problems: own } = readOptions(options, MODULE_OPTIONS, '');
  const jobDefaults = readJobDefaults(options.defaults);
  const alerts = resolveAlerts(options.alerts);
  const connection = resolveConnection(options, environment);
  const problems = [...own, ...jobDefaults.problems, ...alerts.problems];
  if ('problem' in connection) fail([...problems, connection.problem]);
  if (problems.length > 0) fail(problems);
  const all = { ...defaultsOf(MODULE_OPTIONS), ...values };
  return Object.freeze({
    connection,
    schema: all.schema,
    application: all.application ?? environment.packageName ?? null,
    migrate: all.migrate ?? connection.kind === 'embedded',
    jobDefaults: Object.freeze(jobDefaults.values),
    maxConcurrentRuns: all.maxConcurrentRuns,
    poolSize: all.poolSize,
    receiptPoolSize: all.receiptPoolSize,
    retentionMs: all.retention ?? null,
    keepActionsMs: all.keepActions,
    pollIntervalMs: all.pollInterval,
    maxClockSkewMs: all.maxClockSkew,
    blockedAfterMs: all.blockedAfter,
    fastFailover: all.fastFailover,
    heartbeatThread: all.heartbeatThread ?? null,
    shutdownTimeoutMs: all.shutdownTimeout,
    featureFlags: all.featureFlags ?? null,
    strict: all.strict,
    waitForDatabaseMs: all.waitForDatabase,
    alerts: alerts.values,
    enabled: all.enabled,
    logging: all.logging,
  });
}

function readJobDefaults(given: unknown): { values: ResolvedJobDefaults; problems: readonly string[] } {
  if (given === undefined) return { values: {}, problems: [] };
  if (!isObject(given))
    return { values: {}, problems: [`defaults: ${expected('an object of job options', given).problem}`] };
  const { values, problems } = readOptions(given, JOB_DEFAULT_OPTIONS, 'defaults.');
  const between = problemsBetween(given, values, resolvePolicies(values, {})).map((problem) => `defaults: ${problem}`);
  const ofZone = problemsOfZone(values.timeZone ?? 'UTC').map((problem) => `defaults.timeZone: ${problem}`);
  const ofDays = problemsOfExclude(values.exclude).map((problem) => `defaults: ${problem}`);
  return { values, problems: [...problems, ...between, ...ofZone, ...ofDays] };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function fail(problems: readonly string[]): never {
  throw new InvalidOptionsError(problems.map((problem) => `DistributedSchedulerModule: ${problem}`));
}
