import { writeSync } from 'node:fs';
import { workerData } from 'node:worker_threads';
import { databaseTrouble } from '../../errors/database-trouble.js';
import { formatDuration } from '../../options/duration.js';
import { describeError } from '../../errors/stored-error.js';
import { monotonicNow } from '../../database/clock.js';
import { Tables } from '../../database/tables.js';
import { LivenessProof } from '../liveness-proof.js';
import { Failures } from './heartbeat.messages.js';
import type { AttemptToForget, FromThread, HeartbeatSetup, ToThread, WatchedRun } from './heartbeat.messages.js';
import { LeaseKeeper } from './lease-keeper.js';
import { LivenessLock } from './liveness-lock.js';
import { MainLoopWatch } from './main-loop-watch.js';
import { NotificationListener } from './notification-listener.js';

/** The heartbeat's thread: a handler that blocks the main thread can't keep this one from renewing its lease. */
const { client, schema, port, watch, replaces, lifeline: proof } = workerData as HeartbeatSetup;
const tell = (message: FromThread) => port.postMessage(message);
const tables = new Tables(schema);
const ear = new NotificationListener(
  tables.wakeUps,
  watch.instanceId,
  (wakeUps) => tell({ type: 'woken', wakeUps }),
  replaces,
);
const failures = new Failures(tell);
const keeper = new LeaseKeeper(client, tables, tell, ear, failures);
const lifeline = proof && new LivenessLock(client, tables, watch.instanceId, LivenessProof.on(proof), tell, failures);
const mainLoop = new MainLoopWatch(watch.pulse, watch.blockedAfterMs, { blocked, unblocked });
mainLoop.start();
if (replaces) {
  keeper.listen();
  lifeline?.mend();
}

port.on('message', (message: ToThread) => {
  if (message.type === 'watch') message.runs.forEach(watchOver);
  else if (message.type === 'forget') message.runs.forEach(forget);
  else if (message.type === 'connect') void connect();
  else if (message.type === 'reconnect') reconnect();
  else if (message.type === 'credentials') changePassword(message.password);
  else void stop().finally(() => port.close());
});

function watchOver(run: WatchedRun): void {
  lifeline?.watch(run);
  keeper.watch(run);
}

function forget(run: AttemptToForget): void {
  keeper.forget(run);
  lifeline?.forget(run);
}

function changePassword(password: string): void {
  keeper.changePassword(password);
  lifeline?.changePassword(password);
}

function reconnect(): void {
  keeper.reconnect();
  lifeline?.reconnect();
}

async function connect(): Promise<void> {
  await Promise.all([keeper.connect(), lifeline?.connect()]).then(
    () => tell({ type: 'connected' }),
    (error: unknown) =>
      tell({ type: 'refused', error: describeError(error), code: databaseTrouble(error)?.code ?? null }),
  );
}

async function stop(): Promise<void> {
  ear.stop();
  await mainLoop.stop();
  await Promise.all([keeper.stop(), lifeline?.stop()]);
}

function blocked(forMs: number): void {
  keeper.noteBlocked(watch.instanceId, monotonicNow() - forMs);
  if (watch.logging) complain(forMs);
}

function unblocked(forMs: number): void {
  keeper.noteBlocked(watch.instanceId, null);
  tell({ type: 'unblocked', forMs });
}

/** Not through the console: that of a thread waits for the main one. */
function complain(forMs: number): void {
  const runs = keeper.kept;
  const kept =
    runs.length === 0
      ? 'it has no run in hand'
      : `the leases of its runs are kept up to their maxRunTime: ${runs.join(', ')}`;
  try {
    writeSync(
      2,
      `[DistributedScheduler] The event loop of ${watch.instanceId} has stood still for ${formatDuration(Math.round(forMs))}; ${kept}\n`,
    );
  } catch {
    // A pipe that is full, or closed: the column says it, too.
  }
}
