import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from 'node:worker_threads';
import type { ConnectionSettings } from '../store/client-config.js';
import type { FromThread, HeartbeatSetup, ToThread } from './heartbeat.messages.js';

const THREAD = new URL('./heartbeat.thread.js', import.meta.url);
const RESTART_AFTER_MS = 500;
const STOP_WITHIN_MS = 1_000;

/** What the thread's owner wants to hear. */
export interface ThreadListener {
  readonly hear: (message: FromThread) => void;
  /** The thread failed, or could not be started; it is started again. */
  readonly failed: (error: unknown) => void;
  /** A new thread runs and knows nothing yet. */
  readonly replaced: () => void;
}

/** The heartbeat's thread as the main thread sees it: kept running, spoken to, and never in the way of the process' end. */
export class HeartbeatThread {
  private worker: Worker | null = null;
  private port: MessagePort | null = null;

  constructor(
    private readonly settings: () => ConnectionSettings,
    private readonly schema: string,
    private readonly listener: ThreadListener,
  ) {}

  async start(): Promise<void> {
    const { config, password } = this.settings();
    if (password) config.password = await password();
    const { port1, port2 } = new MessageChannel();
    const setup: HeartbeatSetup = { client: config, schema: this.schema, port: port2 };
    const worker = new Worker(THREAD, { workerData: setup, transferList: [port2] });
    worker.unref();
    worker.on('error', this.listener.failed);
    worker.on('exit', () => this.replace(worker));
    port1.on('message', this.listener.hear);
    port1.unref();
    this.worker = worker;
    this.port = port1;
  }

  post(message: ToThread): void {
    this.port?.postMessage(message);
  }

  /** News that has arrived but not been heard, because the event loop was blocked. */
  *unheard(): Iterable<FromThread> {
    while (this.port) {
      const received = receiveMessageOnPort(this.port) as { message: FromThread } | undefined;
      if (!received) return;
      yield received.message;
    }
  }

  async stop(): Promise<void> {
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

  /** A thread that ended by itself is started again: the leases it kept may still hold. */
  private replace(ended: Worker): void {
    if (this.worker !== ended) return;
    this.port?.close();
    setTimeout(() => {
      if (this.worker !== ended) return;
      this.start().then(this.listener.replaced, (error: unknown) => {
        this.listener.failed(error);
        this.replace(ended);
      });
    }, RESTART_AFTER_MS).unref();
  }
}
