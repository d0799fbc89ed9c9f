import { startEmbeddedServer } from '../../dist/lib/database/embedded-server.js';
import { startInstalledServer } from './installed-server.mjs';

/**
 * One server for all test files; its url reaches Jest's workers through the environment they inherit. TEST_POSTGRES is
 * the folder with the programs of another than the embedded one.
 */
export default async function startDatabaseServer() {
  const { TEST_DATABASE_URL: running, TEST_POSTGRES: binaries } = process.env;
  if (running) return;
  const settings = ['max_connections=300', 'max_locks_per_transaction=256', 'synchronous_commit=off'];
  const server = binaries
    ? await startInstalledServer(binaries, settings)
    : await startEmbeddedServer({ postgresFlags: settings.flatMap((setting) => ['-c', setting]) });
  process.env.TEST_DATABASE_URL = server.url;
  globalThis.testDatabaseServer = server;
}
