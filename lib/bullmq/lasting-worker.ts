import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from 'bullmq';

/** How soon another is made, in milliseconds. */
const AGAIN_AFTER_MS = 1_000;

/** How soon an idle worker has paused, in milliseconds. */
const IDLE_WITHIN_MS = 500;

/**
 * A worker of BullMQ that begins once its queue is ready: one that does not wait for that asks a queue that has failed for good again
 * and again, without a pause in which anything else of the process could run. It is made anew until its database was there and
 * had the tables: one that was not ready at its beginning never works. One that has worked finds its way back by itself.
 */
export class LastingWorker {
  private current: Worker;
  private ended = false;

  /** @param make one that does not run by itself */
  constructor(private readonly make: () => Worker) {
    this.current = this.started();
  }

  /** Takes nothing more, and waits for what is in hand. */
  async stop(): Promise<void> {
    this.ended = true;
    // Not `close`, which could not be hurried any more.
    await this.current.pause();
    await this.current.close();
  }

  /** Paused first: closed while it waits for a job, it would leave a timer behind that keeps the process alive. One that has a job is not waited for. */
  async letGo(): Promise<void> {
    this.ended = true;
    await letGo(this.current);
  }

  private started(): Worker {
    const worker = this.make();
    worker.waitUntilReady().then(
      () => this.run(worker),
      (error: Error) => this.replace(worker, error),
    );
    return worker;
  }

  private async run(worker: Worker): Promise<void> {
    if (!this.ended) await worker.run().catch((error: Error) => worker.emit('error', error));
  }

  private async replace(worker: Worker, error: Error): Promise<void> {
    if (this.ended) return;
    worker.emit('error', error);
    await letGo(worker).catch(() => {});
    await sleep(AGAIN_AFTER_MS, undefined, { ref: false });
    if (!this.ended) this.current = this.started();
  }
}

async function letGo(worker: Worker): Promise<void> {
  await Promise.race([worker.pause(), sleep(IDLE_WITHIN_MS, undefined, { ref: false })]);
  await worker.close(true);
}
