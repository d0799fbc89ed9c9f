import { appendFileSync } from 'node:fs';
import type { ReplicaJob, ReplicaSettings } from '../replica/settings.js';
import { Bystanders } from './bystanders.js';
import { Cluster, type ReplicaPlan } from './cluster.js';
import { EVERY_SECOND } from './crons.js';
import { FreezeWalk, type Look } from './freeze-walk.js';
import type { Replica } from './replica.js';
import { SteppedWire, type Send } from './stepped-wire.js';

/** A job that runs when somebody asks for it, or waits for the end of a year. */
export const RARELY = '0 0 29 2 *';

export const OTHERS = ['other 1', 'other 2', 'other 3'];

/** Their leases are longer than any test stands still, so that nothing ends by itself what a frozen process holds. */
const SCHEDULER = { pollInterval: '500ms', defaults: { lease: '5m' } } satisfies ReplicaSettings['scheduler'];

/** What became of one way to freeze a process. */
export interface Outcome {
  /** At each message at which something was held: what. */
  readonly held: readonly string[];
  /** 'went on', or why the others did not. */
  readonly others: string;
}

/** A replica that can be stopped at each of its messages. */
export interface Walker {
  readonly replica: Replica;
  readonly wire: SteppedWire;
  readonly walk: FreezeWalk;
}

/** A database on which one replica, the worker, runs some jobs every second, and others are frozen. */
export class FreezeGround {
  private readonly wires: SteppedWire[] = [];

  private constructor(
    readonly cluster: Cluster,
    readonly worker: Replica,
    readonly bystanders: Bystanders,
  ) {}

  /** @param worker what it runs beside the others */
  static async make({
    worker: own = [],
    ...plan
  }: { worker?: readonly ReplicaJob[] } & Omit<ReplicaPlan, 'jobs'> = {}): Promise<FreezeGround> {
    const cluster = await Cluster.create();
    const others = OTHERS.map((name): ReplicaJob => ({ name, cron: EVERY_SECOND, overlap: 'forbid', steps: [] }));
    const worker = await cluster.start('worker', { ...plan, jobs: [...others, ...own], scheduler: SCHEDULER });
    return new FreezeGround(cluster, worker, new Bystanders(cluster, OTHERS, { jobs: others, scheduler: SCHEDULER }));
  }

  /** Starts a process whose every message can be met; it may not be ready yet. */
  async fork(name: string, { scheduler, ...plan }: ReplicaPlan): Promise<Walker> {
    const wire = await SteppedWire.to(this.cluster.database.url);
    this.wires.push(wire);
    const options = { ...SCHEDULER, ...scheduler, defaults: { ...SCHEDULER.defaults, ...scheduler?.defaults } };
    const replica = this.cluster.fork(name, { ...plan, scheduler: options, url: wire.url });
    return { replica, wire, walk: new FreezeWalk(this.cluster.database, wire, replica) };
  }

  async start(name: string, plan: ReplicaPlan): Promise<Walker> {
    const walker = await this.fork(name, plan);
    await walker.replica.ready();
    return walker;
  }

  /**
   * Stops a walker at each message of what it does, and then another one, or the same once more, at the message at
   * which it held most.
   * @param ready gets a walker ready; what it does then is returned
   * @param last what becomes of a walker
   * @param newcomer what a replica has that starts meanwhile, beside the others
   * @param allowed what may be held all the same
   */
  async freeze(
    title: string,
    ready: (
      pass: 'at each message' | 'at one message',
    ) => Promise<{ walker: Walker; act: () => Promise<unknown>; decided?: string }>,
    {
      last,
      newcomer = [],
      allowed = () => false,
    }: {
      last: (walker: Walker) => Promise<unknown>;
      newcomer?: readonly ReplicaJob[];
      allowed?: (held: string) => boolean;
    },
  ): Promise<Outcome> {
    const first = await ready('at each message');
    const looks = await first.walker.walk.lookAtEach(first.act);
    await last(first.walker);
    if (looks.length === 0) throw new Error('It sent no message.');

    // First: what is ready may not stay so for long.
    await this.bystanders.standBy(newcomer);
    const again = await ready('at one message');
    const { wire, walk } = again.walker;
    const others = await walk.standAt(meant(worstOf(looks)), again.act, () =>
      this.bystanders.goOn(wire.pids, again.decided),
    );
    await last(again.walker);
    report(title, looks, others);
    return { held: heldIn(looks, allowed), others };
  }

  async end(): Promise<void> {
    await this.cluster.end();
    for (const wire of this.wires) wire.end();
  }
}

/**
 * By what it says, but for its values: its number is another one whenever a loop has sent one more. Where nothing was
 * held, any will do.
 */
function meant(worst: Look): (send: Send) => boolean {
  return worst.locks === 0 ? () => true : ({ text }) => withoutValues(text) === withoutValues(worst.text);
}

function withoutValues(text: string): string {
  return text.replaceAll(/'[^']*('|$)/g, '?').replaceAll(/\d+/g, '?');
}

function worstOf(looks: readonly Look[]): Look {
  return looks.reduce((most, look) => (look.locks > most.locks ? look : most));
}

function heldIn(looks: readonly Look[], allowed: (held: string) => boolean): string[] {
  return looks.flatMap(({ message, text, held }) => {
    const wrongly = held.filter((one) => !allowed(one));
    return wrongly.length > 0 ? [`at message ${message} of ${looks.length} (${text}): ${wrongly.join('; ')}`] : [];
  });
}

/** A table for people, where the environment's FREEZE_REPORT says. */
function report(what: string, looks: readonly Look[], others: string): void {
  const file = process.env['FREEZE_REPORT'];
  if (!file) return;
  const holding = looks.filter(({ held }) => held.length > 0).length;
  const lines = looks.map(
    ({ message, text, held }) => `    ${message}. ${text.slice(0, 70)} -> ${held.join('; ') || '-'}`,
  );
  appendFileSync(
    file,
    [
      `${what}: ${looks.length} messages, held at ${holding}; others: ${others.replaceAll('\n', ' / ')}`,
      ...lines,
      '',
    ].join('\n'),
  );
}
