import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from 'node:worker_threads';
import { SetupError } from '../../errors/errors.js';
import { inCleanContext } from '../../database/loop.js';
import type { ConnectionSettings } from '../../database/query.js';
import type { FromThread, HeartbeatSetup, ToThread } from './heartbeat.messages.js';

const RESTART_AFTER_MS = 500;
const STOP_WITHIN_MS = 1_000;

/** What the thread's owner wants to hear. */
export interface ThreadListener {
  readonly hear: (message: FromThread) => void;
  /** The thread failed, or could not be started; it is started again. */
  readonly failed: (error: unknown) => void;
  /** The thread is gone. */
  readonly ended: () => void;
  /** A new thread runs and knows nothing yet. */
  readonly replaced: () => void;
}

interface Running {
  readonly worker: Worker;
  readonly port: MessagePort;
  /** Made together with the worker: whoever asks after its end still hears of it. */
  readonly ended: Promise<void>;
}

/**
 * The heartbeat's thread as the main thread sees it: kept running, spoken to, and never in the way of the process' end.
 */
export class HeartbeatThread {
  private running: Running | null = null;
  private stopped = false;

  constructor(
    private readonly settings: () => ConnectionSettings,
    private readonly setup: Pick<HeartbeatSetup, 'schema' | 'watch' | 'lifeline'>,
    private readonly listener: ThreadListener,
    /** The thread's file, where it is not beside this one. */
    private readonly file: URL | null = null,
  ) {}

  /**
   * Resolves when the thread has connected: settings that don't work there are to fail the start, not every later run.
   * @throws why it could not; it may be started again then
   */
  async start(): Promise<void> {
    const running = await inCleanContext(() => this.run(false));
    if (!running) return;
    // Nothing else may keep a process that is still starting.
    running.worker.ref();
    const refused = await firstConnection(running, (thrown) => this.explained(thrown));
    running.worker.unref();
    if (!refused || this.stopped) return;
    this.running = null;
    await end(running);
    throw refused;
  }

  post(message: ToThread): void {
    this.running?.port.postMessage(message);
  }

  /** News that has arrived but not been heard, because the event loop was blocked. */
  *unheard(): Iterable<FromThread> {
    while (this.running) {
      const received = receiveMessageOnPort(this.running.port) as { message: FromThread } | undefined;
      if (!received) return;
      yield received.message;
    }
  }

  /** For good. */
  async stop(): Promise<void> {
    this.stopped = true;
    if (this.running) await end(this.running);
  }

  /** @returns null when it was stopped while the password was made */
  private async run(replaces: boolean): Promise<Running | null> {
    const { config, password } = this.settings();
    if (password) config.password = await password();
    if (this.stopped) return null;
    const { port1, port2 } = new MessageChannel();
    const setup: HeartbeatSetup = { ...this.setup, client: config, port: port2, replaces };
    const worker = this.worker(setup);
    const running: Running = {
      worker,
      port: port1,
      ended: new Promise((resolve) => worker.once('exit', () => resolve())),
    };
    this.running = running;
    worker.unref();
    worker.on('error', (thrown) => this.listener.failed(this.explained(thrown)));
    port1.on('message', this.listener.hear);
    port1.unref();
    void running.ended.then(() => this.replaceLater(running));
    return running;
  }

  /**
   * What was preloaded into the process (`--require`, `--import`, NODE_OPTIONS) is not for its threads: tracing that
   * opens its port a second time would end this one.
   */
  private worker(setup: HeartbeatSetup): Worker {
    const { NODE_OPTIONS: _, ...env } = process.env;
    try {
      return new Worker(this.file ?? besideThis(), {
        workerData: setup,
        transferList: [setup.port],
        execArgv: [],
        env,
      });
    } catch (thrown) {
      throw this.explained(thrown);
    }
  }

  private explained(thrown: unknown): SetupError {
    return thrown instanceof SetupError ? thrown : threadError(this.file ?? besideThis(), thrown);
  }

  /** A thread that ended by itself is started again: the leases it kept may still hold. */
  private replaceLater(running: Running): void {
    if (this.stopped || this.running !== running) return;
    this.listener.ended();
    running.port.close();
    setTimeout(() => void this.replace(), RESTART_AFTER_MS).unref();
  }

  private async replace(): Promise<void> {
    if (this.stopped) return;
    try {
      if (await this.run(true)) this.listener.replaced();
    } catch (error) {
      this.listener.failed(error);
      setTimeout(() => void this.replace(), RESTART_AFTER_MS).unref();
    }
  }
}

async function end({ worker, port, ended }: Running): Promise<void> {
  port.postMessage({ type: 'stop' } satisfies ToThread);
  const impatience = setTimeout(() => void worker.terminate(), STOP_WITHIN_MS);
  worker.ref();
  await ended;
  clearTimeout(impatience);
  port.close();
}

/** @param file of the thread; null where the bundle does not say where it is itself */
function threadError(file: URL | null, thrown: unknown): SetupError {
  // Its words and its place alone: whatever code it has says nothing about the database.
  const cause = thrown instanceof Error ? Object.assign(new Error(thrown.message), { stack: thrown.stack }) : thrown;
  return new SetupError(
    'heartbeat-thread',
    `The heartbeat’s thread, which renews the leases of running handlers, cannot run: ${advice(file, thrown)}`,
    { cause },
  );
}

function advice(file: URL | null, thrown: unknown): string {
  const code = (thrown as { code?: unknown } | null)?.code;
  const { permission, message = String(thrown) } = (thrown ?? {}) as { permission?: unknown; message?: string };
  if (code === 'ERR_ACCESS_DENIED' && permission === 'WorkerThreads')
    return `Node.js’ permission model allows this process no threads. Start it with --allow-worker.`;
  if (code === 'ERR_ACCESS_DENIED')
    return `Node.js’ permission model forbids it something (${message}). Allow reading its files (--allow-fs-read) and the network.`;
  if (file === null || code === 'MODULE_NOT_FOUND' || code === 'ERR_MODULE_NOT_FOUND') {
    const what =
      file === null ? 'its file is not there' : `its file or a part of it is not there (${file.href}: ${message})`;
    return (
      `${what}. If the application is bundled, this package must stay outside the bundle: with esbuild "external: ['nestjs-distributed-cron']" ` +
      `or "packages: 'external'", with webpack "externals: { 'nestjs-distributed-cron': 'nestjs-distributed-cron' }" or webpack-node-externals, ` +
      `with ncc "--external nestjs-distributed-cron". Or bundle nestjs-distributed-cron/heartbeat-thread as a file of its own, and name that: ` +
      `forRoot({ heartbeatThread: '/app/heartbeat-worker.js' }). See docs/bundlers.md.`
    );
  }
  return `${message}. It starts without --require, --import and NODE_OPTIONS of the process; see what else in it stops threads (${file.href}).`;
}

/** @throws SetupError in a bundle of CommonJS, which does not know where it is */
function besideThis(): URL {
  try {
    return new URL('./heartbeat-worker.js', import.meta.url);
  } catch (thrown) {
    throw threadError(null, thrown);
  }
}

/** @returns why the thread could not connect, or null when it could */
async function firstConnection(
  { worker, port, ended }: Running,
  explained: (thrown: unknown) => Error,
): Promise<Error | null> {
  return new Promise((resolve) => {
    port.on('message', (message: FromThread) => {
      if (message.type === 'connected') resolve(null);
      if (message.type === 'refused') resolve(Object.assign(new Error(message.error.message), { code: message.code }));
    });
    worker.once('error', (thrown) => resolve(explained(thrown)));
    void ended.then(() => resolve(explained(new Error('it ended by itself'))));
    port.postMessage({ type: 'connect' } satisfies ToThread);
  });
}
