import { startEmbeddedServer } from '../../dist/lib/store/embedded/embedded-server.js';

/** One server for all test files; its url reaches Jest's workers through the environment they inherit. */
export default async function startDatabaseServer() {
  if (process.env.TEST_DATABASE_URL) return;
  const settings = ['max_connections=300', 'max_locks_per_transaction=256', 'synchronous_commit=off'];
  const server = await startEmbeddedServer({ postgresFlags: settings.flatMap((setting) => ['-c', setting]) });
  process.env.TEST_DATABASE_URL = server.url;
  globalThis.testDatabaseServer = server;
}
