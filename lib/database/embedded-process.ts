import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import type { Socket } from 'node:net';
import type { ServerAccount } from './embedded-binaries.js';

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
