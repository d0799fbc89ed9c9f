import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from 'node:net';

/** A Redis of a test's own, on loopback, that keeps nothing. */
export interface RedisServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** Its allocator and libfaketime wait for each other at the start: it has the machine's own clock, whatever the test's is. */
const env = { ...process.env, LD_PRELOAD: '' };

/** In CI it is always there: what lacks it there fails instead of being skipped. */
export const hasRedisServer =
  Boolean(process.env['CI']) || spawnSync('redis-server', ['--version'], { env }).status === 0;

export async function startRedisServer(): Promise<RedisServer> {
  const port = await freePort();
  const server = spawn(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', '/tmp'],
    { stdio: 'ignore', env },
  );
  const failed = once(server, 'error').then(([error]) =>
    Promise.reject(new Error(`redis-server cannot be started (apt-get install redis-server): ${String(error)}`)),
  );
  await Promise.race([failed, answering(port)]);
  failed.catch(() => undefined);
  return {
    url: `redis://127.0.0.1:${port}`,
    stop: async () => {
      const ended = once(server, 'exit');
      server.kill('SIGKILL');
      await ended;
    },
  };
}

async function freePort(): Promise<number> {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  listener.close();
  await once(listener, 'close');
  return port;
}

async function answering(port: number): Promise<void> {
  for (let tries = 0; tries < 1_000; tries++) {
    const socket = connect(port, '127.0.0.1');
    const answers = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (answers) return;
    await pause(50);
  }
  throw new Error('redis-server did not answer within 50 s.');
}
