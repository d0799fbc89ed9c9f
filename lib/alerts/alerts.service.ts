import { Inject, Injectable } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { SCHEDULER_OPTIONS } from '../distributed-scheduler.tokens.js';
import type { Alert, AlertSink } from '../domain/alert.js';
import { admit, closeWindows, nextClosing, OPEN_GATE, type AlertGate, type AlertRules } from '../domain/alert-gate.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import { OwnLogger } from '../logging/own-logger.js';
import type { ResolvedSchedulerOptions } from '../options/resolve-options.js';
import { inCleanContext } from '../runtime/clean-context.js';
import { monotonicNow } from '../runtime/monotonic.js';
import { ToldStore } from '../store/jobs/told.store.js';
import { AlertDelivery } from './alert-delivery.js';
import { alertOf, heldAlert, isToldByAll } from './alert-of-event.js';
import { findSink } from './find-sink.js';

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
    this.rules = { repeatAfterMs: options.alerts.repeatAfterMs, atMost: options.alerts.mostPerMinute, windowMs: WINDOW_MS };
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
    const first = (alert: Alert) => this.told.first(alert.key, { againAfterMs: this.rules.repeatAfterMs, unlessSince: null }).catch(() => true);
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
