import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('./replica.js', import.meta.url));

/** Processes of the application, all alike. */
export class Replicas {
  private readonly children = new Map<string, ChildProcess>();

  /** Resolves when all are ready. */
  async start(names: readonly string[], databaseUrl: string): Promise<void> {
    await Promise.all(
      names.map(async (name) => {
        const child = fork(PROGRAM, [], {
          env: { ...process.env, DATABASE_URL: databaseUrl, REPLICA_NAME: name },
          execArgv: ['--enable-source-maps', '--no-warnings'],
          stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
        });
        this.children.set(name, child);
        const ended = once(child, 'exit').then(([code]) =>
          Promise.reject(new Error(`Replica ${name} did not start: it ended with ${code}.`)),
        );
        await Promise.race([once(child, 'message'), ended]);
        ended.catch(() => undefined);
      }),
    );
  }

  /** No goodbye. */
  async kill(name: string): Promise<void> {
    const child = this.children.get(name)!;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  pid(name: string): number {
    return this.children.get(name)!.pid!;
  }

  async stop(): Promise<void> {
    await Promise.all(
      [...this.children.values()].map(async (child) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const ended = once(child, 'exit');
        child.kill('SIGTERM');
        await ended;
      }),
    );
  }
}
