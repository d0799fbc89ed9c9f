import type { ReplicaMessage } from '../src/demo/messages.js';
import { Problem } from './problem.js';
import { Replica } from './replica.js';

export const REPLICA_NAMES = ['A', 'B', 'C'] as const;

/** The replicas, as a platform keeps them: what was killed is started again. */
export class Fleet {
  private readonly replicas = new Map<string, Replica>();
  private readonly everStarted: Replica[] = [];

  constructor(
    private readonly env: NodeJS.ProcessEnv,
    private readonly onMessage: (replica: Replica, message: ReplicaMessage) => void,
  ) {}

  list(): Replica[] {
    return [...this.replicas.values()];
  }

  get(name: string): Replica | undefined {
    return this.replicas.get(name);
  }

  /** Resolves when all are ready. */
  async start(signal: AbortSignal): Promise<void> {
    await Promise.all(REPLICA_NAMES.map((name) => this.startOne(name, signal)));
  }

  /** @throws Problem with what it said when it ends before it is ready */
  async startOne(name: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      const replica = new Replica(
        name,
        this.env,
        (from, message) => {
          if (message.kind === 'ready') resolve();
          this.onMessage(from, message);
        },
        ({ unexpectedEnd }) =>
          reject(new Problem(`Replica ${name} did not start: ${unexpectedEnd ?? 'it was stopped'}`)),
      );
      this.replicas.set(name, replica);
      this.everStarted.push(replica);
    });
  }

  /** Those that ended although nobody ended them, and what they said last. */
  unexpectedEnds(): string[] {
    return this.everStarted.flatMap(({ name, unexpectedEnd }) =>
      unexpectedEnd === null ? [] : [`${name}: ${unexpectedEnd}`],
    );
  }

  /** Lets running handlers end. */
  async stop(): Promise<void> {
    await Promise.all(this.everStarted.map((replica) => replica.stop(11_000)));
  }

  async destroy(): Promise<void> {
    await Promise.all(this.everStarted.map((replica) => replica.destroy()));
  }
}
