import { Inject, Injectable } from '@nestjs/common';
import { INSTANCE_ID, SCHEDULER_OPTIONS } from '../../options/tokens.js';
import { databaseTrouble, type DatabaseTrouble, unreachable } from '../../errors/database-trouble.js';
import { SetupError } from '../../errors/errors.js';
import { LONGEST_TIMER_MS } from '../../options/duration.js';
import { describeError, type StoredError } from '../../errors/stored-error.js';
import type { LeaseLoss } from '../../errors/run.errors.js';
import { tellingOf } from '../../observe/duty.js';
import { SchedulerEvents } from '../../observe/scheduler-events.js';
import type { ResolvedSchedulerOptions } from '../../options/resolve-options.js';
import { Loop } from '../../database/loop.js';
import { monotonicNow } from '../../database/clock.js';
import type { ConnectionSettings } from '../../database/query.js';
import { SchedulerDatabase } from '../../database/scheduler-database.js';
import { HeartbeatThread } from './heartbeat-thread.js';
import type { AttemptToForget, FromThread, WatchedRun } from './heartbeat.messages.js';
import { InFlightRuns, type InFlightRun } from '../in-flight-runs.js';
import { Pulse } from './main-loop-watch.js';
import { TimeLimits } from '../time-limits.js';
import { WakeUps } from '../../observe/wake-ups.js';

/**
 * How soon runs are looked at again in any case, in milliseconds: one that was cancelled may be stuck before its next
 * limit.
 */
const LOOK_AGAIN_MS = 5_000;

/** In milliseconds. */
const RECONNECT_EVERY_MS = 2_000;

/**
 * Keeps the leases of this instance's runs, from a thread with its own connection, and tells a handler through its
 * signal the moment its lease is lost: by the database's word, or by the monotonic clock when no word comes.
 */
@Injectable()
export class HeartbeatService {
  private readonly thread: HeartbeatThread;
  private readonly deadlines: Loop;
  private readonly limits: TimeLimits;
  private readonly pulse = new Pulse();
  private readonly forgotten: AttemptToForget[] = [];
  private reconnectedAt = -Infinity;

  constructor(
    @Inject(SCHEDULER_OPTIONS) private readonly options: ResolvedSchedulerOptions,
    @Inject(INSTANCE_ID) instanceId: string,
    private readonly database: SchedulerDatabase,
    private readonly runs: InFlightRuns,
    private readonly events: SchedulerEvents,
    private readonly wakeUps: WakeUps,
  ) {
    this.limits = new TimeLimits(runs, events);
    runs.keptBy(this);
    const { blockedAfterMs, logging } = options;
    const watch = { pulse: this.pulse.memory, blockedAfterMs, instanceId, logging };
    const lifeline = options.fastFailover && options.enabled ? runs.lifeline.memory : null;
    if (lifeline) runs.lifeline.require();
    this.thread = new HeartbeatThread(
      () => this.settings,
      { schema: database.tables.schema, watch, lifeline },
      {
        hear: (message) => this.hear(message),
        failed: (error) => {
          if (lifeline) runs.lifeline.cutOff();
          this.failed(describeError(error), databaseTrouble(error));
        },
        ended: () => {
          this.wakeUps.areHeard = false;
        },
        replaced: () => this.watch(this.runs.list()),
      },
      options.heartbeatThread,
    );
    database.whenReadOnly(() => this.reconnect());
    this.deadlines = new Loop(async () => this.checkDeadlines(), {
      maxSleepMs: LONGEST_TIMER_MS,
      ...tellingOf('heartbeat', events),
    });
  }

  /**
   * @throws SetupError when the thread can't connect, though the pools can; it may be started again then
   * and when there can't be a thread
   */
  async start(): Promise<void> {
    await this.thread.start().catch((error: unknown) => {
      if (error instanceof SetupError) throw error;
      throw unreachable(
        'the scheduler’s settings, for the heartbeat’s own connection',
        unusable(error, this.settings.functions),
      );
    });
    this.pulse.start(this.options.blockedAfterMs);
    this.deadlines.start();
  }

  /** Renews the runs' leases until they are forgotten or lost. The thread knows of them before their handlers begin. */
  watch(runs: readonly InFlightRun[]): void {
    if (runs.length === 0) return;
    this.thread.post({ type: 'watch', runs: runs.map(watched) });
    const now = monotonicNow();
    this.deadlines.wakeWithin(Math.min(...runs.map((run) => Math.min(run.ownedUntil - now, this.limits.nextOf(run)))));
  }

  /** The thread is told of all that end in one turn of the event loop at once. */
  forget({ id, owned: { attempt } }: InFlightRun): void {
    if (this.forgotten.length === 0)
      setImmediate(() => this.thread.post({ type: 'forget', runs: this.forgotten.splice(0) }));
    this.forgotten.push({ id, attempt });
  }

  /** Ends the thread. Nothing renews a lease any more, so it comes last. */
  async stop(): Promise<void> {
    this.pulse.stop();
    await this.deadlines.stop();
    await this.thread.stop();
  }

  private hear(message: FromThread): void {
    switch (message.type) {
      case 'renewed':
        for (const { id, attempt, leaseUntil, leaseDeadline } of message.renewals) {
          this.runs.get(id, attempt)?.renewed(new Date(leaseUntil), leaseDeadline);
        }
        return;
      case 'lost':
        return this.lose(this.runs.get(message.id, message.attempt), message.cause);
      case 'listening':
        this.wakeUps.areHeard = message.isHeard;
        return;
      case 'woken':
        return this.wakeUps.tell(message.wakeUps);
      case 'unblocked':
        return this.events.emit({ type: 'loop.blocked', forMs: message.forMs });
      case 'failed':
        return this.failed(message.error, message.trouble);
      case 'recovered':
        return this.events.emit({ type: 'heartbeat.recovered' });
      case 'no lifeline':
        return this.events.emit({ type: 'fastFailover.unavailable' });
      // `start()` waits for these.
      case 'connected':
      case 'refused':
        return;
    }
  }

  /** Aborts what could not be renewed in time, or takes too long. @returns milliseconds to the next deadline */
  private checkDeadlines(): number {
    // While the event loop was blocked the thread went on, and its news waits behind this timer.
    for (const news of this.thread.unheard()) this.hear(news);
    const now = monotonicNow();
    const held = this.runs.list().filter((run) => !run.leaseLost && !run.settled);
    for (const run of held) if (!this.runs.isOurs(run, now)) this.forget(run);
    const untilLimit = this.limits.check();
    const longest = this.runs.size === 0 ? LONGEST_TIMER_MS : LOOK_AGAIN_MS;
    return Math.min(longest, untilLimit, ...held.filter((run) => !run.leaseLost).map((run) => run.ownedUntil - now));
  }

  private lose(run: InFlightRun | undefined, cause: LeaseLoss): void {
    if (!run) return;
    this.runs.lose(run, cause);
    this.forget(run);
  }

  private failed(error: StoredError, trouble: DatabaseTrouble | null): void {
    this.events.emit({ type: 'heartbeat.failed', error, trouble });
    if (trouble?.kind === 'read-only') {
      this.database.leaveConnections();
      this.reconnect();
    }
    this.renewPassword().catch((refused: unknown) =>
      this.events.emit({ type: 'heartbeat.failed', error: describeError(refused) }),
    );
  }

  /** While the address still leads to what takes no writes, every loop finds that again and again. */
  private reconnect(): void {
    if (monotonicNow() - this.reconnectedAt < RECONNECT_EVERY_MS) return;
    this.reconnectedAt = monotonicNow();
    this.thread.post({ type: 'reconnect' });
  }

  /** The thread's next connection may need a new one. */
  private async renewPassword(): Promise<void> {
    const { password } = this.settings;
    if (password) this.thread.post({ type: 'credentials', password: await password() });
  }

  private get settings(): ConnectionSettings {
    return this.database.settings('nestjs-distributed-cron heartbeat');
  }
}

/** As it crosses to the thread. */
function watched(run: InFlightRun): WatchedRun {
  const { jobName, fireTime, attempt, instanceId, leaseMs } = run.owned;
  return {
    id: run.id,
    jobName,
    fireTime: fireTime.toISOString(),
    attempt,
    instanceId,
    leaseMs,
    renewEveryMs: run.job.renewEveryMs,
    leaseDeadline: run.leaseDeadline,
    renewUntil: run.renewUntil,
  };
}

/** The pools have connected with the same settings, so what differs is said: functions can't cross to a thread. */
function unusable(error: unknown, functions: readonly string[]): Error {
  const { message } = describeError(error);
  if (functions.length === 0) return new Error(message, { cause: error });
  const options = functions.join(', ');
  return new Error(
    `${message}. It is made in a thread, where options that are functions can’t be used; left out: ${options}`,
    { cause: error },
  );
}
