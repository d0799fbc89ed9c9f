import { Injectable } from '@nestjs/common';
import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from 'node:worker_threads';
import { LONGEST_TIMER_MS } from '../domain/duration.js';
import { describeError, type StoredError } from '../domain/stored-error.js';
import { SchedulerEvents } from '../events/scheduler-events.js';
import type { LeaseLoss } from '../events/scheduler-event.js';
import { Loop } from '../runtime/loop.js';
import { monotonicNow } from '../runtime/monotonic.js';
import type { ConnectionSettings } from '../store/client-config.js';
import { SchedulerDatabase } from '../store/scheduler-database.js';
import type { FromThread, HeartbeatSetup, ToThread } from './heartbeat.messages.js';
import { InFlightRuns, type InFlightRun } from './in-flight-runs.js';

const THREAD = new URL('./heartbeat.thread.js', import.meta.url);
const RESTART_AFTER_MS = 500;
const STOP_WITHIN_MS = 1_000;

/**
 * Keeps the leases of this instance's runs, from a thread with its own connection, and tells a handler through its
 * signal the moment its lease is lost: by the database's word, or by the monotonic clock when no word comes.
 */
@Injectable()
export class HeartbeatService {
  private worker: Worker | null = null;
  private port: MessagePort | null = null;
  private readonly deadlines = new Loop(async () => this.checkDeadlines(), {
    maxSleepMs: LONGEST_TIMER_MS,
    onFailure: (error, failures) => this.events.emit({ type: 'loop.failed', loop: 'heartbeat', error: describeError(error), failures }),
  });

  constructor(
    private readonly database: SchedulerDatabase,
    private readonly runs: InFlightRuns,
    private readonly events: SchedulerEvents,
  ) {}

  async start(): Promise<void> {
    await this.startThread();
    this.deadlines.start();
  }

  /** Renews the run's lease until it is forgotten or lost. */
  watch(run: InFlightRun): void {
    const { jobName, fireTime, attempt, instanceId, leaseMs } = run.owned;
    this.post({
      type: 'watch',
      run: {
        id: run.id,
        jobName,
        fireTime: fireTime.toISOString(),
        attempt,
        instanceId,
        leaseMs,
        renewEveryMs: run.job.renewEveryMs,
        leaseDeadline: run.leaseDeadline,
      },
    });
    this.deadlines.wakeWithin(run.leaseDeadline - monotonicNow());
  }

  forget(run: InFlightRun): void {
    this.post({ type: 'forget', id: run.id, attempt: run.owned.attempt });
  }

  /** Ends the thread. Nothing renews a lease any more, so it comes last. */
  async stop(): Promise<void> {
    await this.deadlines.stop();
    const worker = this.worker;
    if (!worker) return;
    this.worker = null;
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    this.post({ type: 'stop' });
    const impatience = setTimeout(() => void worker.terminate(), STOP_WITHIN_MS);
    worker.ref();
    await ended;
    clearTimeout(impatience);
    this.port?.close();
    this.port = null;
  }

  private async startThread(): Promise<void> {
    const { config, password } = this.settings;
    if (password) config.password = await password();
    const { port1, port2 } = new MessageChannel();
    const setup: HeartbeatSetup = { client: config, schema: this.database.tables.schema, port: port2 };
    const worker = new Worker(THREAD, { workerData: setup, transferList: [port2] });
    worker.unref();
    port1.on('message', (message: FromThread) => this.hear(message));
    port1.unref();
    worker.on('error', (error) => this.events.emit({ type: 'heartbeat.failed', error: describeError(error) }));
    worker.on('exit', () => this.replace(worker));
    this.worker = worker;
    this.port = port1;
  }

  /** A thread that ended by itself is started again and given the runs; their leases may still hold. */
  private replace(ended: Worker): void {
    if (this.worker !== ended) return;
    this.port?.close();
    setTimeout(() => {
      if (this.worker !== ended) return;
      this.startThread().then(
        () => this.runs.list().forEach((run) => this.watch(run)),
        (error: unknown) => {
          this.events.emit({ type: 'heartbeat.failed', error: describeError(error) });
          this.replace(ended);
        },
      );
    }, RESTART_AFTER_MS).unref();
  }

  private hear(message: FromThread): void {
    if (message.type === 'lost') this.lose(this.runs.get(message.id, message.attempt), message.cause);
    else if (message.type === 'failed') void this.failed(message.error);
    else if (message.type === 'recovered') this.events.emit({ type: 'heartbeat.recovered' });
    else {
      for (const renewal of message.renewals) {
        this.runs.get(renewal.id, renewal.attempt)?.renewed(new Date(renewal.leaseUntil), renewal.leaseDeadline);
      }
    }
  }

  /** Aborts what could not be renewed in time. @returns milliseconds to the next deadline */
  private checkDeadlines(): number {
    // While the event loop was blocked the thread went on, and its news waits behind this timer.
    for (let news = this.receive(); news; news = this.receive()) this.hear(news);
    const now = monotonicNow();
    const held = this.runs.list().filter((run) => !run.leaseLost && !run.settled);
    for (const run of held) if (run.leaseDeadline <= now) this.lose(run, 'expired');
    return Math.min(LONGEST_TIMER_MS, ...held.filter((run) => run.leaseDeadline > now).map((run) => run.leaseDeadline - now));
  }

  private receive(): FromThread | undefined {
    return this.port ? (receiveMessageOnPort(this.port)?.message as FromThread | undefined) : undefined;
  }

  private lose(run: InFlightRun | undefined, cause: LeaseLoss): void {
    if (!run) return;
    this.runs.lose(run, cause);
    this.forget(run);
  }

  private post(message: ToThread): void {
    this.port?.postMessage(message);
  }

  /** The next connection may need a new password. */
  private async failed(error: StoredError): Promise<void> {
    this.events.emit({ type: 'heartbeat.failed', error });
    const { password } = this.settings;
    if (!password) return;
    try {
      this.post({ type: 'credentials', password: await password() });
    } catch (refused) {
      this.events.emit({ type: 'heartbeat.failed', error: describeError(refused) });
    }
  }

  private get settings(): ConnectionSettings {
    return this.database.settings('nestjs-distributed-cron heartbeat');
  }
}
