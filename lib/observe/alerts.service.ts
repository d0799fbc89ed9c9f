import { Inject, Injectable, type Type } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { monotonicNow } from '../database/clock.js';
import { inCleanContext } from '../database/loop.js';
import { type Query, queryOn } from '../database/query.js';
import type { SchedulerDatabase } from '../database/scheduler-database.js';
import { InvalidOptionsError } from '../errors/errors.js';
import {
  admit,
  AlertDelivery,
  type AlertGate,
  alertOf,
  type AlertRules,
  closeWindows,
  heldAlert,
  isToldByAll,
  nextClosing,
  OPEN_GATE,
} from './alert-delivery.js';
import { OwnLogger } from './own-logger.js';
import { SchedulerEvents } from './scheduler-events.js';
import type { Alert, AlertSink, AlertSinkOption } from '../options/alert-options.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { ALERT_SINK, SCHEDULER_OPTIONS } from '../options/tokens.js';

/** When a fact may be told again. */
export interface TellingAgain {
  /** Milliseconds. */
  readonly againAfterMs: number;
  /** It is another fact when it was told before this instant. */
  readonly unlessSince: Date | null;
}

/** Sees to it that one of all replicas tells what they all find in the database. */
export class ToldStore {
  private readonly query: Query;

  constructor(private readonly database: SchedulerDatabase) {
    this.query = queryOn(database.coordination);
  }

  /** @returns true for whoever is to tell it now */
  async first(key: string, { againAfterMs, unlessSince }: TellingAgain): Promise<boolean> {
    const told = await this.query(
      `insert into ${this.database.tables.jobAlerts} as alert (key, told_at)
       values ($1, clock_timestamp())
       on     conflict (key) do update
       set    told_at = excluded.told_at
       where  alert.told_at < greatest($3::timestamptz, clock_timestamp() - $2 * interval '1 millisecond')
       returning 1`,
      [key, againAfterMs, unlessSince?.toISOString() ?? null],
    );
    return told.length === 1;
  }
}

const WINDOW_MS = 60_000;

/** More than that wait for nobody. */
const MOST_WAITING = 100;

/** Hears what happens and hands what a person should know to the application's sink: each fact once, a flood as one. */
@Injectable()
export class AlertsService {
  private readonly rules: AlertRules;
  private gate: AlertGate = OPEN_GATE;
  private delivery: AlertDelivery | null = null;
  private closing: NodeJS.Timeout | null = null;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    private readonly events: SchedulerEvents,
    private readonly modules: ModuleRef,
    private readonly told: ToldStore,
  ) {
    this.rules = {
      repeatAfterMs: options.alerts.repeatAfterMs,
      atMost: options.alerts.mostPerMinute,
      windowMs: WINDOW_MS,
    };
  }

  /** Finds the sink and listens until the stream ends; without a sink, the log is all there is. */
  async listen(): Promise<void> {
    const sink = await findSink(this.options.alerts.sink, this.modules);
    if (!sink) return;
    this.delivery = new AlertDelivery(this.toldOnce(sink), {
      timeoutMs: this.options.alerts.timeoutMs,
      atMost: MOST_WAITING,
      trouble: (text) => this.warn(text),
    });
    this.events.subscribe((event) => {
      const alert = alertOf(event);
      if (alert) this.hear(alert);
    });
  }

  /** Tells what was held back, and waits until all is delivered. */
  async stop(): Promise<void> {
    if (this.closing) clearTimeout(this.closing);
    this.tellHeld(Infinity);
    await this.delivery?.drained();
  }

  /** Waits for nothing any more. */
  abandon(): void {
    this.delivery?.abandon();
  }

  private hear(alert: Alert): void {
    const now = monotonicNow();
    this.tellHeld(now);
    const { gate, verdict } = admit(this.gate, alert, now, this.rules);
    this.gate = gate;
    if (verdict === 'pass') this.delivery!.add(alert);
    if (verdict === 'held') this.closeInTime(now);
  }

  private closeInTime(now: number): void {
    const at = nextClosing(this.gate, this.rules);
    if (this.closing || at === null) return;
    const close = () => {
      this.closing = null;
      this.tellHeld(monotonicNow());
      this.closeInTime(monotonicNow());
    };
    this.closing = inCleanContext(() => setTimeout(close, Math.ceil(at - now)));
    this.closing.unref();
  }

  private tellHeld(now: number): void {
    const { gate, held } = closeWindows(this.gate, now, this.rules);
    this.gate = gate;
    for (const one of held) this.delivery?.add(heldAlert(one, new Date(), WINDOW_MS));
  }

  /** Of what every replica tells, one alert. A database that can't be asked is no reason to say nothing. */
  private toldOnce(sink: AlertSink): AlertSink {
    const first = (alert: Alert) =>
      this.told.first(alert.key, { againAfterMs: this.rules.repeatAfterMs, unlessSince: null }).catch(() => true);
    return {
      alert: async (alert) => {
        if (!isToldByAll(alert) || (await first(alert))) await sink.alert(alert);
      },
    };
  }

  private warn(text: string): void {
    if (this.options.logging) new OwnLogger().warn(text);
  }
}

/**
 * The sink that the options name, or the application's provider of `ALERT_SINK`, wherever it is; null without either.
 * @throws InvalidOptionsError when there is no such provider, or it is none
 */
export async function findSink(given: AlertSinkOption | null, modules: ModuleRef): Promise<AlertSink | null> {
  const sink =
    given === null
      ? provided(modules, ALERT_SINK)
      : isToken(given)
        ? (provided(modules, given) ?? (await made(given, modules)))
        : given;
  if (sink === null || typeof sink.alert === 'function') return sink;
  throw new InvalidOptionsError([
    'DistributedSchedulerModule: alerts.sink: expected something with a method alert(alert).',
  ]);
}

function isToken(given: AlertSinkOption): given is Exclude<AlertSinkOption, AlertSink> {
  return typeof given !== 'object';
}

function provided(modules: ModuleRef, token: string | symbol | Type<AlertSink>): AlertSink | null {
  try {
    return modules.get<AlertSink>(token as Type<AlertSink>, { strict: false });
  } catch (error) {
    if ((error as Error).constructor.name === 'UnknownElementException') return null;
    throw error;
  }
}

async function made(token: string | symbol | Type<AlertSink>, modules: ModuleRef): Promise<AlertSink> {
  if (typeof token === 'function') return modules.create(token);
  throw new InvalidOptionsError([`DistributedSchedulerModule: alerts.sink: no module provides ${String(token)}.`]);
}
