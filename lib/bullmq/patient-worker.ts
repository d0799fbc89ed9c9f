import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from 'bullmq';

/** Before a worker is made anew, in milliseconds; then twice as long each time. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/** How soon an idle worker has paused, in milliseconds. */
const IDLE_WITHIN_MS = 500;

/**
 * A worker that is made anew for as long as its backend cannot be made ready. BullMQ's own never gets over that: it asks the
 * backend that has failed again and again, without a pause in which anything else of the process could run.
 */
export class PatientWorker {
  private worker: Worker | null = null;
  private readonly ending = new AbortController();
  private readonly started: Promise<void>;

  /** @param make one that does not run by itself */
  constructor(
    private readonly make: () => Worker,
    private readonly failed: (error: unknown) => void,
  ) {
    this.started = this.start();
  }

  /** Takes nothing more, and waits for what is in hand. */
  async stop(): Promise<void> {
    this.ending.abort();
    // Not `close`, which could not be hurried any more.
    await this.worker?.pause();
    await this.worker?.close();
  }

  /** Paused first: closed while it waits for a job, it would leave a timer behind that keeps the process alive. One that has a job is not waited for. */
  async letGo(): Promise<void> {
    this.ending.abort();
    await Promise.race([this.worker?.pause(), sleep(IDLE_WITHIN_MS, undefined, { ref: false })]);
    await this.worker?.close(true);
    await Promise.race([this.started, sleep(IDLE_WITHIN_MS, undefined, { ref: false })]);
  }

  private async start(): Promise<void> {
    const { signal } = this.ending;
    for (let pause = FIRST_PAUSE_MS; !signal.aborted; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      try {
        const worker = this.make();
        this.worker = worker;
        worker.on('error', (error) => this.failed(error));
        await worker.waitUntilReady();
        if (!signal.aborted) void worker.run().catch((error: unknown) => this.failed(error));
        return;
      } catch (error) {
        if (signal.aborted) return;
        this.failed(error);
        await this.worker?.close(true).catch(() => {});
        await sleep(pause, undefined, { signal, ref: false }).catch(() => {});
      }
    }
  }
}
