import { SchedulerError } from './scheduler.error.js';

/** The heartbeat's thread can't start, or ended by itself: a fault of the process, not of the database. The message says what to do. */
export class HeartbeatThreadError extends SchedulerError {
  /** @param file of the thread; null where the bundle does not say where it is itself */
  constructor(file: URL | null, thrown: unknown) {
    // Its words and its place alone: whatever code it has says nothing about the database.
    const cause = thrown instanceof Error ? Object.assign(new Error(thrown.message), { stack: thrown.stack }) : thrown;
    super(`The heartbeat’s thread, which renews the leases of running handlers, cannot run: ${advice(file, thrown)}`, { cause });
  }
}

function advice(file: URL | null, thrown: unknown): string {
  const code = (thrown as { code?: unknown } | null)?.code;
  const { permission, message = String(thrown) } = (thrown ?? {}) as { permission?: unknown; message?: string };
  if (code === 'ERR_ACCESS_DENIED' && permission === 'WorkerThreads') return `Node.js’ permission model allows this process no threads. Start it with --allow-worker.`;
  if (code === 'ERR_ACCESS_DENIED') return `Node.js’ permission model forbids it something (${message}). Allow reading its files (--allow-fs-read) and the network.`;
  if (file === null || code === 'MODULE_NOT_FOUND' || code === 'ERR_MODULE_NOT_FOUND') {
    const what = file === null ? 'its file is not there' : `its file or a part of it is not there (${file.href}: ${message})`;
    return (
      `${what}. If the application is bundled, this package must stay outside the bundle: with esbuild "external: ['nestjs-distributed-cron']" ` +
      `or "packages: 'external'", with webpack "externals: { 'nestjs-distributed-cron': 'nestjs-distributed-cron' }" or webpack-node-externals, ` +
      `with ncc "--external nestjs-distributed-cron". Or bundle nestjs-distributed-cron/heartbeat-thread as a file of its own, and name that: ` +
      `forRoot({ heartbeatThread: '/app/heartbeat.thread.js' }). See docs/bundlers.md.`
    );
  }
  return `${message}. It starts without --require, --import and NODE_OPTIONS of the process; see what else in it stops threads (${file.href}).`;
}
