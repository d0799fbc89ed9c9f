import type { ReplicaJob, ReplicaSettings, Strike } from '../replica/settings.js';
import type { Attempt } from '../replica/messages.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { Ledger } from './ledger.js';
import { Replica, type Which } from './replica.js';

/** What a replica is started with; what is left out is the same in all tests. */
export interface ReplicaPlan {
  readonly jobs: readonly ReplicaJob[];
  readonly scheduler?: ReplicaSettings['scheduler'];
  readonly runTimeHandlers?: readonly string[];
  readonly standsBy?: boolean;
  readonly believedPid?: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly smtpPort?: number;
  readonly strike?: Strike;
  /** Another way to the same database. */
  readonly url?: string;
  /** Of another build. */
  readonly program?: string;
}

export const LEASE_MS = 2_000;
/** The reaper's pass. */
export const POLL_MS = 500;
/** What a busy machine may add to it. */
export const SLACK_MS = 2_000;

const SCHEDULER: ReplicaSettings['scheduler'] = {
  migrate: true,
  logging: false,
  pollInterval: POLL_MS,
  defaults: { lease: LEASE_MS, overlap: 'allow', lateAfter: '2m' },
};

/** A database of its own and the replicas on it. */
export class Cluster {
  private readonly replicas: Replica[] = [];

  private constructor(
    readonly database: TestDatabase,
    readonly ledger: Ledger,
    private readonly schema: string,
  ) {}

  /** @param server another one than all tests use */
  static async create({ schema = 'public', server }: { schema?: string; server?: string } = {}): Promise<Cluster> {
    const database = await createTestDatabase(server);
    const cluster = new Cluster(database, new Ledger(database, schema), schema);
    await cluster.ledger.prepare();
    return cluster;
  }

  /** Starts a replica and waits until it is up. */
  start(name: string, plan: ReplicaPlan): Promise<Replica> {
    return this.fork(name, plan).ready();
  }

  /** Starts them all at the same time, and waits until all are up. */
  async startAll(names: readonly string[], plan: ReplicaPlan): Promise<Replica[]> {
    return Promise.all(names.map((name) => this.fork(name, plan)).map((replica) => replica.ready()));
  }

  fork(name: string, { jobs, scheduler, env, program, url = this.database.url, ...rest }: ReplicaPlan): Replica {
    const options = {
      ...SCHEDULER,
      schema: this.schema,
      ...scheduler,
      defaults: { ...SCHEDULER.defaults, ...scheduler?.defaults },
    };
    const replica = Replica.fork({ name, url, jobs, scheduler: options, ...rest }, env, program);
    this.replicas.push(replica);
    return replica;
  }

  /** Waits until a handler of any replica stands at the gate. */
  async anyAtGate(gate: string, which: Which = {}): Promise<{ replica: Replica; at: Attempt }> {
    const waiting = this.replicas
      .filter(({ isAlive }) => isAlive)
      .map(async (replica) => ({ replica, at: await replica.atGate(gate, which) }));
    return Promise.any(waiting).catch((none: AggregateError) => {
      throw new Error(none.errors.map(String).join('\n\n'));
    });
  }

  /** Ends what is left of it. @param andThen while its database is still there */
  async end(andThen: () => Promise<unknown> = async () => {}): Promise<void> {
    await Promise.all(this.replicas.map((replica) => replica.kill()));
    await andThen().catch(() => {});
    await this.database.drop();
  }
}
