import { inCleanContext } from '../database/loop.js';
import { isOutOfReach } from '../errors/database-trouble.js';
import { describeError } from '../errors/stored-error.js';
import type { EventOf, SchedulerEvent } from './scheduler-event.js';
import { wordingOf } from './wording.js';
import { type Alert, ALERT_SEVERITIES, type AlertKind, type AlertSink } from '../options/alert-options.js';
import { formatDuration } from '../options/duration.js';
import { runId, type RunKey } from '../options/run.js';

/** How many alerts are too many. Milliseconds. */
export interface AlertRules {
  /** The same fact is told again after this at the earliest. */
  readonly repeatAfterMs: number;
  /** How many of one kind go through within a window. */
  readonly atMost: number;
  readonly windowMs: number;
}

interface Window {
  readonly from: number;
  readonly passed: number;
  readonly held: number;
}

/** What went through lately, and what was held back. A value: every step makes a new one. */
export interface AlertGate {
  /** When each key went through. */
  readonly told: ReadonlyMap<string, number>;
  readonly windows: ReadonlyMap<AlertKind, Window>;
}

/** A kind of which more came than went through, and how many of it were held back. */
export interface HeldBack {
  readonly kind: AlertKind;
  readonly count: number;
}

export const OPEN_GATE: AlertGate = { told: new Map(), windows: new Map() };

/**
 * Whether an alert goes through. Kinds are counted apart, so that a flood of one hides no other. What is held back was
 * told to nobody, and may go through later.
 */
export function admit(
  gate: AlertGate,
  { key, kind }: Pick<Alert, 'key' | 'kind'>,
  now: number,
  rules: AlertRules,
): { gate: AlertGate; verdict: 'pass' | 'repeated' | 'held' } {
  const toldAt = gate.told.get(key);
  if (toldAt !== undefined && now - toldAt < rules.repeatAfterMs) return { gate, verdict: 'repeated' };
  const last = gate.windows.get(kind);
  const open = last && (last.held > 0 || now - last.from < rules.windowMs) ? last : { from: now, passed: 0, held: 0 };
  if (open.passed >= rules.atMost) {
    return {
      gate: { ...gate, windows: new Map(gate.windows).set(kind, { ...open, held: open.held + 1 }) },
      verdict: 'held',
    };
  }
  const lately = [...gate.told].filter(([, at]) => now - at < rules.repeatAfterMs);
  return {
    gate: {
      told: new Map(lately).set(key, now),
      windows: new Map(gate.windows).set(kind, { ...open, passed: open.passed + 1 }),
    },
    verdict: 'pass',
  };
}

/** Closes the windows that are over: what was held back in them is to be told as one. @param now Infinity closes all */
export function closeWindows(gate: AlertGate, now: number, rules: AlertRules): { gate: AlertGate; held: HeldBack[] } {
  const over = [...gate.windows].filter(([, { from }]) => now - from >= rules.windowMs);
  const windows = new Map(gate.windows);
  for (const [kind] of over) windows.delete(kind);
  return {
    gate: { ...gate, windows },
    held: over.filter(([, { held }]) => held > 0).map(([kind, { held }]) => ({ kind, count: held })),
  };
}

/** When the first window with something held back is over; null when there is none. */
export function nextClosing(gate: AlertGate, { windowMs }: AlertRules): number | null {
  const ends = [...gate.windows.values()].filter(({ held }) => held > 0).map(({ from }) => from + windowMs);
  return ends.length === 0 ? null : Math.min(...ends);
}

/**
 * A duty that fails for other reasons than a database out of reach is told about at this failure in a row: after some
 * ten seconds.
 */
const LOOP_IS_FAILING_AT = 8;

interface Judgement {
  readonly kind: AlertKind;
  /** What makes it the same fact, beside its kind. */
  readonly about: string;
}

/** The alert that an event is; null for most. */
export function alertOf(event: SchedulerEvent): Alert | null {
  const judgement = judge(event);
  if (!judgement) return null;
  const { type: _type, at, ...facts } = event;
  const { jobName = null, fireTime = null } = facts as Partial<RunKey>;
  const { kind, about } = judgement;
  return {
    kind,
    severity: ALERT_SEVERITIES[kind],
    jobName,
    fireTime,
    text: wordingOf(event)?.text ?? kind,
    facts,
    at,
    key: `${kind} ${about}`,
  };
}

/** Facts that every replica tells: one of them is enough. */
export function isToldByAll({ kind }: Alert): boolean {
  return kind === 'job.unregistered' || kind === 'jobs.shared' || kind === 'zones.differ';
}

/** In place of what was held back. */
export function heldAlert({ kind, count }: HeldBack, at: Date, windowMs: number): Alert {
  const text = `${count} more alerts of the kind ${kind} came within ${formatDuration(windowMs)} and were held back: see the log and job_runs`;
  return {
    kind: 'alerts.held',
    severity: ALERT_SEVERITIES['alerts.held'],
    jobName: null,
    fireTime: null,
    text,
    facts: { kind, count, windowMs },
    at,
    key: `alerts.held ${kind}`,
  };
}

function judge(event: SchedulerEvent): Judgement | null {
  switch (event.type) {
    case 'run.dead':
    case 'run.stuck':
    case 'run.abandoned':
    case 'run.overBudget':
    case 'run.orphaned':
    case 'lease.lost':
      return { kind: event.type, about: attempt(event) };
    case 'effect.inDoubt':
      return { kind: event.type, about: `${attempt(event)} ${JSON.stringify([event.entity, event.effect])}` };
    case 'run.missed':
      // An operator wanted it so.
      if (event.queued.length === 0 && event.heldBack === event.recorded) return null;
      return { kind: event.type, about: `${event.jobName} until ${event.until.toISOString()}` };
    case 'job.overdue':
      return {
        kind: event.type,
        about: `${event.jobName} ${event.lastSuccessAt ? `since ${event.lastSuccessAt.toISOString()}` : 'without a success'}`,
      };
    case 'data.refused':
      return { kind: event.type, about: `${event.step} of ${event.jobName}` };
    case 'job.unreadable':
      return { kind: event.type, about: event.jobName };
    case 'job.unregistered':
      return { kind: event.type, about: event.jobs.map(({ jobName }) => jobName).join(', ') };
    case 'jobs.shared':
      // The same fact for both.
      return {
        kind: event.type,
        about: [[event.application, event.other].sort(), event.jobs, event.handlers].flat(2).join(', '),
      };
    case 'zones.differ':
      return {
        kind: event.type,
        about: [[event.tz, event.otherTz].map(String).sort(), event.zones].flat(2).join(', '),
      };
    case 'clock.skewed':
      return {
        kind: event.type,
        about: `${event.skewMs < 0 ? 'behind' : 'ahead'} by ${Math.floor(Math.log2(Math.abs(event.skewMs) / event.maxMs))}`,
      };
    case 'partitions.ending':
      return { kind: event.type, about: event.until.toISOString() };
    case 'database.unreachable':
      return { kind: event.type, about: event.since.toISOString() };
    case 'loop.failed':
      // A table that is missing fails every loop, and is one fact.
      return isFailing(event) ? { kind: 'loop.failing', about: event.trouble?.kind ?? event.loop } : null;
    default:
      return null;
  }
}

/** A database out of reach fails all loops, and is told about as that. What somebody must mend is told at once. */
function isFailing({ failures, trouble }: EventOf<'loop.failed'>): boolean {
  if (trouble && !trouble.passing) return failures === 1 || failures >= LOOP_IS_FAILING_AT;
  return !(trouble && isOutOfReach(trouble)) && failures >= LOOP_IS_FAILING_AT;
}

function attempt(event: RunKey & { readonly attempt: number }): string {
  return `${runId(event)} attempt ${event.attempt}`;
}

/** How patient a delivery is, and whom it tells. */
export interface DeliveryOptions {
  /** How long one alert may take, in milliseconds. */
  readonly timeoutMs: number;
  /** How many alerts wait at most; more are dropped. */
  readonly atMost: number;
  /** Told in words when alerts begin to be lost, and again only after one got through. */
  readonly trouble: (text: string) => void;
}

/**
 * Hands alerts to a sink, one at a time and in order. A sink that throws, rejects, hangs or is slow costs alerts and
 * nothing else. Its timers keep no process alive.
 */
export class AlertDelivery {
  private readonly waiting: Alert[] = [];
  private delivering: Promise<void> | null = null;
  private told = false;

  constructor(
    private readonly sink: AlertSink,
    private readonly options: DeliveryOptions,
  ) {}

  add(alert: Alert): void {
    if (this.waiting.length >= this.options.atMost)
      return this.lost(`${this.options.atMost} alerts wait for it already`);
    this.waiting.push(alert);
    this.delivering ??= inCleanContext(() => this.deliverAll());
  }

  /** Resolves when nothing waits any more. */
  async drained(): Promise<void> {
    await this.delivering;
  }

  /** Gives up what waits. */
  abandon(): void {
    this.waiting.length = 0;
  }

  private async deliverAll(): Promise<void> {
    for (let alert = this.waiting.shift(); alert; alert = this.waiting.shift()) await this.deliver(alert);
    this.delivering = null;
  }

  private async deliver(alert: Alert): Promise<void> {
    try {
      await this.inTime(async () => this.sink.alert(alert));
      this.told = false;
    } catch (error) {
      this.lost(describeError(error).message);
    }
  }

  private async inTime(work: () => Promise<void>): Promise<void> {
    const { timeoutMs } = this.options;
    let timer: NodeJS.Timeout | undefined;
    const impatience = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`it took longer than ${timeoutMs} ms`)), timeoutMs);
      timer.unref();
    });
    try {
      await Promise.race([work(), impatience]);
    } finally {
      clearTimeout(timer);
    }
  }

  private lost(why: string): void {
    if (!this.told) this.options.trouble(`The alert sink fails, and alerts are lost until it works again: ${why}`);
    this.told = true;
  }
}
