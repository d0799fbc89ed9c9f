import { startEmbeddedServer } from '../../dist/lib/store/embedded-server.js';

/** A PostgreSQL server of this run's own, on this machine and with `fsync` off; gone when the work has ended. */
export async function onServer<Result>(work: (url: string) => Promise<Result>): Promise<Result> {
  const server = await startEmbeddedServer();
  try {
    return await work(server.url);
  } finally {
    await server.stop();
  }
}
