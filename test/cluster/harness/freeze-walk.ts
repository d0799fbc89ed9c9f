import { setTimeout as pause } from 'node:timers/promises';
import type { TestDatabase } from '../../support/database.js';
import type { Replica } from './replica.js';
import type { Send, SteppedWire } from './stepped-wire.js';

/** What the sessions of a process hold while it is frozen at a message. */
export interface Look {
  /** 1, 2, … */
  readonly message: number;
  readonly text: string;
  /** For each session that waits for the frozen process and holds something: what. */
  readonly held: readonly string[];
  /** So many locks there are in it. */
  readonly locks: number;
}

interface Session {
  readonly pid: number;
  readonly state: string | null;
  readonly waits: string | null;
  readonly locks: readonly string[] | null;
}

const LOOK_AGAIN_MS = 10;

/** The names of sessions that are BullMQ's own. What they lock is in its schema. */
const OF_A_QUEUE = ['nestjs-distributed-cron pages%', '%bullmq%'];

/**
 * Freezes a process at each message it sends, whatever it sends: before the server has got it, and again before the
 * process gets the answer.
 */
export class FreezeWalk {
  constructor(
    private readonly database: TestDatabase,
    private readonly wire: SteppedWire,
    private readonly replica: Pick<Replica, 'freeze' | 'thaw'>,
  ) {}

  /**
   * Stops at every message that is sent until the work has ended.
   * @returns what was held then
   */
  async lookAtEach(work: () => Promise<unknown>): Promise<Look[]> {
    const looks: Look[] = [];
    let last: readonly string[] = [];
    await this.during(work, async (send) => {
      const message = looks.length + 1;
      const before = await this.look();
      await this.answer(send);
      const after = await this.look();
      const held = wordings(after);
      // What was held after the message before this one is told of that one.
      looks.push({
        message,
        text: send.text,
        held: [...wordings(before).filter((text) => !last.includes(text)), ...held],
        locks: countLocks(after),
      });
      last = held;
    });
    return looks;
  }

  /**
   * Stops at one message alone, the first that is meant, for as long as others need to go on.
   * @returns 'went on', or why they did not
   */
  async standAt(
    isMeant: (send: Send) => boolean,
    work: () => Promise<unknown>,
    others: () => Promise<void>,
  ): Promise<string> {
    const seen: string[] = [];
    let outcome: string | null = null;
    const met = async (send: Send) => {
      await this.answer(send);
      outcome = await others().then(
        () => 'went on',
        (error: Error) => error.message,
      );
    };
    await this.during(work, met, (send) => outcome === null && (seen.push(send.text), isMeant(send))).catch(
      (error: unknown) => {
        // What it was stopped in may fail for that.
        if (outcome === null) throw error;
      },
    );
    if (outcome === null) throw new Error(`The message that was meant was not among these:\n${seen.join('\n')}`);
    return outcome;
  }

  private async during(
    work: () => Promise<unknown>,
    met: (send: Send) => Promise<void>,
    isStop: (send: Send) => boolean = () => true,
  ): Promise<void> {
    let failure: unknown = null;
    let stop: Promise<void> | null = null;
    this.wire.watch(async (send) => {
      if (failure !== null || !isStop(send)) return this.answer(send);
      this.replica.freeze();
      stop = met(send).catch((error: unknown) => void (failure ??= error));
      await stop;
      this.replica.thaw();
    });
    try {
      await work();
    } finally {
      // On a busy machine the work may be given up before the others have gone on.
      await stop;
      this.wire.watch(null);
      this.replica.thaw();
    }
    if (failure !== null) throw failure as Error;
  }

  /** Gives the message to the server, and waits for the answer; or for a lock, if that is what the server does. */
  private async answer(send: Send): Promise<void> {
    let answered = false;
    void send.forward().then(() => (answered = true));
    while (!answered && !(await this.waitsForLock(send.pid))) await pause(LOOK_AGAIN_MS);
  }

  private async waitsForLock(pid: number): Promise<boolean> {
    const waiting = await this.database.query(
      `select from pg_stat_activity where pid = $1 and state = 'active' and wait_event_type = 'Lock'`,
      [pid],
    );
    return waiting.length > 0;
  }

  /** The process' sessions, when none is at work any more: each waits for the process, or for somebody's lock. */
  private async look(): Promise<Session[]> {
    for (;;) {
      const sessions = await this.database.query<Session>(
        `select a.pid, a.state, a.wait_event_type as waits,
                (select array_agg(distinct l.mode || ' ' || coalesce(regexp_replace(c.relname, '_\\d{4}_\\d{2}$', ''), case l.locktype when 'transactionid' then 'rows' else l.locktype end))
                 from   pg_locks l
                 left   join pg_class c on l.locktype = 'relation' and c.oid = l.relation
                 where  l.pid = a.pid
                 and    l.granted
                 and    l.locktype <> 'virtualxid'
                 and    (c.relkind is null or c.relkind not in ('i', 'I'))) as locks
         from   pg_stat_activity a
         where  a.pid = any ($1)
         and    a.application_name not like all ($2::text[])`,
        [this.wire.pids, OF_A_QUEUE],
      );
      if (!sessions.some(({ state, waits }) => state === 'active' && waits !== 'Lock'))
        return sessions.filter(({ state }) => state !== 'active');
      await pause(LOOK_AGAIN_MS);
    }
  }
}

/** One line for each session that is in a transaction, or holds a lock without one. */
function wordings(sessions: readonly Session[]): string[] {
  return sessions
    .filter(({ state, locks }) => state !== 'idle' || locks)
    .map(({ state, locks }) => `${state}: ${[...(locks ?? [])].sort().join(', ') || 'no lock'}`);
}

function countLocks(sessions: readonly Session[]): number {
  return sessions.reduce((sum, { locks }) => sum + (locks?.length ?? 0), 0);
}
