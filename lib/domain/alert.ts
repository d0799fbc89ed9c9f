/** `critical`: work is not done until somebody acts. `warning`: it goes on, and somebody should look. */
export type AlertSeverity = 'warning' | 'critical';

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
