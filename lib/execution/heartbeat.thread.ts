import { workerData } from 'node:worker_threads';
import { describeError } from '../domain/stored-error.js';
import { Tables } from '../store/tables.js';
import type { FromThread, HeartbeatSetup, ToThread } from './heartbeat.messages.js';
import { LeaseKeeper } from './lease-keeper.js';

/** The heartbeat's thread: a handler that blocks the main thread can't keep this one from renewing its lease. */
const { client, schema, port } = workerData as HeartbeatSetup;
const tell = (message: FromThread) => port.postMessage(message);
const keeper = new LeaseKeeper(client, new Tables(schema), tell);

port.on('message', (message: ToThread) => {
  if (message.type === 'watch') keeper.watch(message.run);
  else if (message.type === 'forget') keeper.forget(message.id, message.attempt);
  else if (message.type === 'connect') void connect();
  else if (message.type === 'credentials') keeper.changePassword(message.password);
  else void keeper.stop().finally(() => port.close());
});

async function connect(): Promise<void> {
  await keeper.connect().then(
    () => tell({ type: 'connected' }),
    (error: unknown) => tell({ type: 'refused', error: describeError(error) }),
  );
}
