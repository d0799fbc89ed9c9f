import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Order, ReplicaPlan, ReplicaReport, Told } from './replica.messages.js';

const PROGRAM = fileURLToPath(new URL('replica.js', import.meta.url));

/** So many real replicas of one service, in processes of their own. */
export class Fleet {
  private constructor(private readonly replicas: readonly ChildProcess[]) {}

  /** Resolves when all of them are up; the first makes the tables. */
  static async start(count: number, plan: ReplicaPlan): Promise<Fleet> {
    const fleet = new Fleet([
      await started(plan),
      ...(await Promise.all(Array.from({ length: count - 1 }, () => started(plan)))),
    ]);
    return fleet;
  }

  /** What each of them did since it was asked last. */
  reports(): Promise<ReplicaReport[]> {
    return Promise.all(this.alive.map((replica) => report(replica)));
  }

  /** Ends one at once, as a crash would. @param index in the order of {@link reports} before */
  kill(index: number): void {
    this.alive[index]!.kill('SIGKILL');
  }

  /** Blocks the event loops of all for so many milliseconds. */
  block(millis: number): void {
    for (const replica of this.alive) replica.send({ type: 'block', millis } satisfies Order);
  }

  private get alive(): ChildProcess[] {
    return this.replicas.filter(({ killed }) => !killed);
  }

  async end(): Promise<void> {
    await Promise.all(this.replicas.map((replica) => end(replica)));
  }
}

async function started(plan: ReplicaPlan): Promise<ChildProcess> {
  const replica = fork(PROGRAM, [], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const failed = once(replica, 'exit').then(([code]) =>
    Promise.reject(new Error(`A replica did not start: exit code ${code}.`)),
  );
  failed.catch(() => {});
  replica.send(plan);
  await Promise.race([said(replica, 'ready'), failed]);
  return replica;
}

async function report(replica: ChildProcess): Promise<ReplicaReport> {
  const answer = said(replica, 'report');
  replica.send({ type: 'report' } satisfies Order);
  return (await answer).report;
}

async function said<Type extends Told['type']>(
  replica: ChildProcess,
  type: Type,
): Promise<Extract<Told, { type: Type }>> {
  for (;;) {
    const [told] = (await once(replica, 'message')) as [Told];
    if (told.type === type) return told as Extract<Told, { type: Type }>;
  }
}

async function end(replica: ChildProcess): Promise<void> {
  if (replica.exitCode !== null || replica.signalCode !== null) return;
  const gone = once(replica, 'exit');
  replica.send({ type: 'close' } satisfies Order);
  const impatience = setTimeout(() => replica.kill('SIGKILL'), 10_000);
  await gone;
  clearTimeout(impatience);
}
