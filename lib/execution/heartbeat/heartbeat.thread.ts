import { writeSync } from 'node:fs';
import { workerData } from 'node:worker_threads';
import { databaseTrouble } from '../../domain/database-trouble.js';
import { formatDuration } from '../../domain/duration.js';
import { describeError } from '../../domain/runs/stored-error.js';
import { monotonicNow } from '../../runtime/monotonic.js';
import { Tables } from '../../store/tables.js';
import type { FromThread, HeartbeatSetup, ToThread } from './heartbeat.messages.js';
import { LeaseKeeper } from './lease-keeper.js';
import { MainLoopWatch } from './main-loop-watch.js';
import { WakeUpEar } from './wake-up-ear.js';

/** The heartbeat's thread: a handler that blocks the main thread can't keep this one from renewing its lease. */
const { client, schema, port, watch, replaces } = workerData as HeartbeatSetup;
const tell = (message: FromThread) => port.postMessage(message);
const tables = new Tables(schema);
const ear = new WakeUpEar(tables.wakeUps, watch.instanceId, (wakeUps) => tell({ type: 'woken', wakeUps }), replaces);
const keeper = new LeaseKeeper(client, tables, tell, ear);
const mainLoop = new MainLoopWatch(watch.pulse, watch.blockedAfterMs, { blocked, unblocked });
mainLoop.start();
if (replaces) keeper.listen();

port.on('message', (message: ToThread) => {
  if (message.type === 'watch') keeper.watch(message.run);
  else if (message.type === 'forget') keeper.forget(message.id, message.attempt);
  else if (message.type === 'connect') void connect();
  else if (message.type === 'credentials') keeper.changePassword(message.password);
  else void stop().finally(() => port.close());
});

async function connect(): Promise<void> {
  await keeper.connect().then(
    () => tell({ type: 'connected' }),
    (error: unknown) => tell({ type: 'refused', error: describeError(error), code: databaseTrouble(error)?.code ?? null }),
  );
}

async function stop(): Promise<void> {
  ear.stop();
  await mainLoop.stop();
  await keeper.stop();
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
  const kept = runs.length === 0 ? 'it has no run in hand' : `the leases of its runs are kept up to their maxRunTime: ${runs.join(', ')}`;
  try {
    writeSync(2, `[DistributedScheduler] The event loop of ${watch.instanceId} has stood still for ${formatDuration(Math.round(forMs))}; ${kept}\n`);
  } catch {
    // A pipe that is full, or closed: the column says it, too.
  }
}
