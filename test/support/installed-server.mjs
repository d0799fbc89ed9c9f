import { randomBytes } from 'node:crypto';
import { chown, mkdtemp, realpath, writeFile } from 'node:fs/promises';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkAccess, serverAccount, runToEnd, startServer } from '../../dist/lib/database/embedded-process.js';

const DEBIAN = '/usr/lib/postgresql';

/** The folder with the programs of the oldest server that Debian's packages have put here, if there is one. */
export function installedBinaries() {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((one, other) => Number(one) - Number(other)) : [];
  return versions.map((version) => join(DEBIAN, version, 'bin')).find((folder) => existsSync(join(folder, 'postgres')));
}

/**
 * A server of an installed PostgreSQL on a free port of loopback, with throw-away data; it ends with this process.
 * As root it runs as `postgres` or `nobody`.
 */
export async function startInstalledServer(binaries, settings) {
  const [initdb, postgres] = ['initdb', 'postgres'].map((program) => join(binaries, program));
  for (const program of [initdb, postgres]) {
    if (!existsSync(program))
      throw new Error(`There is no ${program}: install a server (apt-get install postgresql), or name another folder.`);
  }
  const account = serverAccount();
  const temporary = await realpath(tmpdir());
  if (account) checkAccess(account, { initdb, postgres }, temporary);
  const folder = await mkdtemp(join(temporary, 'installed-postgres-'));
  const place = { folder, account };
  const data = join(folder, 'data');
  const password = randomBytes(16).toString('hex');
  const passwordFile = join(folder, 'password');
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (account) for (const path of [folder, passwordFile]) await chown(path, account.uid, account.gid);
  await runToEnd(
    initdb,
    [
      `--pgdata=${data}`,
      '--username=postgres',
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      '--no-sync',
    ],
    place,
  );
  const port = await freePort();
  const all = [
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    'fsync=off',
    'full_page_writes=off',
    ...settings,
  ];
  const server = await startServer(
    postgres,
    ['-D', data, '-p', String(port), ...all.flatMap((setting) => ['-c', setting])],
    place,
  );
  return { url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`, stop: () => server.stop() };
}

async function freePort() {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return port;
}
