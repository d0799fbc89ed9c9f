import type { Type } from '@nestjs/common';
import type { Duration } from './duration.js';
import {
  duration,
  expected,
  integer,
  type Reading,
  defaultsOf,
  readOptions,
  type OptionTable,
} from './option-rules.js';

/** `critical`: work is not done until somebody acts. `warning`: it goes on, and somebody should look. */
type AlertSeverity = 'warning' | 'critical';

/** What an alert can be about, and how bad that is. */
export const ALERT_SEVERITIES = {
  'run.dead': 'critical',
  'run.stuck': 'critical',
  'run.abandoned': 'critical',
  'effect.inDoubt': 'critical',
  'run.overBudget': 'warning',
  'run.orphaned': 'warning',
  'run.missed': 'warning',
  'lease.lost': 'warning',
  'job.overdue': 'critical',
  'job.unregistered': 'warning',
  'job.unreadable': 'critical',
  'jobs.shared': 'warning',
  'data.refused': 'critical',
  'clock.skewed': 'warning',
  'zones.differ': 'warning',
  'partitions.ending': 'critical',
  'database.unreachable': 'critical',
  'loop.failing': 'critical',
  // A flood of one kind, in place of what was held back.
  'alerts.held': 'warning',
} as const satisfies Record<string, AlertSeverity>;

/** What an alert is about. */
export type AlertKind = keyof typeof ALERT_SEVERITIES;

/** Something a person should know. */
export interface Alert {
  readonly kind: AlertKind;
  readonly severity: AlertSeverity;
  readonly jobName: string | null;
  readonly fireTime: Date | null;
  /** One sentence. */
  readonly text: string;
  /** What is known about it, plain values. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** By the machine's clock. */
  readonly at: Date;
  /** The same for the same fact: use it where a pager joins what belongs together. */
  readonly key: string;
}

/** Where alerts go: a pager, a chat, a mail. It may throw, hang or be slow: nobody but its alerts waits for it. */
export interface AlertSink {
  alert(alert: Alert): void | Promise<void>;
}

/** Where alerts go: a sink, its class, or the token of a provider of one. */
export type AlertSinkOption = AlertSink | Type<AlertSink> | string | symbol;

/** Options of alerts. Durations are milliseconds or strings such as `'30s'`. */
export interface AlertOptions {
  /**
   * Where alerts go: an object with a method `alert`, its class, or an injection token.
   * @default the application's provider of `ALERT_SINK`, if there is one; else the log is all there is
   */
  sink?: AlertSinkOption;
  /** The same fact is told again after this at the earliest. @default '1h' */
  repeatAfter?: Duration;
  /** How many alerts of one kind go out in a minute; the others become one that says how many they were. @default 10 */
  mostPerMinute?: number;
  /** How long the sink may take for one alert before it is given up. @default '10s' */
  timeout?: Duration;
  /** How soon the last partition ends when that is told, where none can be made. @default '14d' */
  partitionsEndWithin?: Duration;
}

/** The options of alerts, every default filled in. */
export interface ResolvedAlertOptions {
  /** Null: the provider of `ALERT_SINK`, if there is one. */
  readonly sink: AlertSinkOption | null;
  readonly repeatAfterMs: number;
  readonly mostPerMinute: number;
  readonly timeoutMs: number;
  readonly partitionsEndWithinMs: number;
}

const TIMER = { atMost: '24d', whyMost: 'timers take no more' } as const;

const ALERT_OPTIONS = {
  sink: { rule: readSink },
  repeatAfter: {
    rule: duration({ atLeast: '1s', whyLeast: 'the same alert again and again helps nobody' }),
    byDefault: 3_600_000,
  },
  mostPerMinute: { rule: integer({ atLeast: 1 }), byDefault: 10 },
  timeout: { rule: duration({ atLeast: '1ms', ...TIMER }), byDefault: 10_000 },
  partitionsEndWithin: { rule: duration(), byDefault: 14 * 86_400_000 },
} as const satisfies Record<keyof AlertOptions, OptionTable[string]>;

/** Reads `alerts`, with every problem. */
export function resolveAlerts(given: unknown): { values: ResolvedAlertOptions; problems: readonly string[] } {
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
  const { values, problems } = readOptions(isObject ? given : {}, ALERT_OPTIONS, 'alerts.');
  const all = { ...defaultsOf(ALERT_OPTIONS), ...values };
  return {
    values: Object.freeze({
      sink: all.sink ?? null,
      repeatAfterMs: all.repeatAfter,
      mostPerMinute: all.mostPerMinute,
      timeoutMs: all.timeout,
      partitionsEndWithinMs: all.partitionsEndWithin,
    }),
    problems:
      given === undefined || isObject ? problems : [`alerts: ${expected('an object of alert options', given).problem}`],
  };
}

function readSink(given: unknown): Reading<AlertSinkOption> {
  const usable =
    typeof given === 'object' && given !== null
      ? typeof (given as AlertSink).alert === 'function'
      : ['function', 'string', 'symbol'].includes(typeof given);
  return usable
    ? { value: given as AlertSinkOption }
    : expected('something with a method alert(alert), its class, or an injection token', given);
}
