import { setTimeout as sleep } from 'node:timers/promises';
import { nextFireTimes } from 'nestjs-distributed-cron';
import { LEASE_MS } from '../src/schedules.js';
import type { DatabaseClock } from './database-clock.js';
import type { Fleet } from './fleet.js';
import { BALANCES, REPORT, type ExpectedJob } from './jobs.js';
import type { Arrival, MailServer } from './mail-server.js';
import type { Replica } from './replica.js';
import type { WorkInHand } from './work-in-hand.js';

/** In the middle of a mailing: after so many of its mails. */
const AFTER_MAILS = 12;
const RESTART_AFTER_MS = 4_000;
const FROZEN_MS = LEASE_MS + 3_000;
/** Once the answer is written down, so that the freeze falls between two mails. */
const FREEZE_AFTER_MS = 30;

/** What was done to a replica, by the database's clock. */
export interface Strike {
  readonly kind: 'killed' | 'frozen';
  readonly replica: string;
  /** Of the mailing it was in the middle of, ISO 8601. */
  readonly fireTime: string;
  readonly at: Date;
}

/** Kills a replica in the middle of a mailing, freezes one in the middle of another, then freezes all of them. */
export class Disasters {
  readonly strikes: Strike[] = [];
  private readonly counts = new Map<string, number>();

  constructor(
    private readonly fleet: Fleet,
    private readonly mailServer: MailServer,
    private readonly work: WorkInHand,
    private readonly expected: readonly ExpectedJob[],
    private readonly clock: DatabaseClock,
    /** Only mailings that fired later are judged. */
    private readonly from: Date,
    private readonly tell: (text: string, replica?: string) => void,
    private readonly signal: AbortSignal,
  ) {}

  async run(): Promise<void> {
    await this.restart(await this.killInMailing());
    await this.thaw(await this.freezeInMailing());
    await this.freezeAll();
  }

  /** The worst moment: the mail server has the mail, and the sender dies before it knows. */
  private async killInMailing(): Promise<Replica> {
    const { mail, replica } = await this.midMailing('onArrival', ({ replica }) => replica.kill());
    this.strike('killed', mail);
    this.work.forget(replica.name);
    this.tell(
      `killed (SIGKILL) when mail ${AFTER_MAILS} was delivered and its answer not yet written down`,
      replica.name,
    );
    return replica;
  }

  private async restart(killed: Replica): Promise<void> {
    await this.sleep(RESTART_AFTER_MS);
    this.tell('started again', killed.name);
    await this.fleet.startOne(killed.name, this.signal);
  }

  private async freezeInMailing(): Promise<Replica> {
    const { mail, replica } = await this.midMailing('onAnswered', () => {});
    await this.sleep(FREEZE_AFTER_MS);
    replica.freeze();
    this.strike('frozen', mail);
    this.tell(
      `frozen (SIGSTOP) after mail ${AFTER_MAILS}, for ${seconds(FROZEN_MS)} s: its lease is ${seconds(LEASE_MS)} s`,
      replica.name,
    );
    return replica;
  }

  private async thaw(frozen: Replica): Promise<void> {
    await this.sleep(FROZEN_MS);
    this.tell('thawed (SIGCONT): it believes that it still owns the run', frozen.name);
    this.work.forget(frozen.name);
    frozen.thaw();
  }

  private async freezeAll(): Promise<void> {
    await this.quiet();
    const replicas = this.fleet.list();
    for (const replica of replicas) replica.freeze();
    this.tell(`all replicas frozen for ${seconds(FROZEN_MS)} s: whatever is due now is missed`);
    await this.sleep(FROZEN_MS);
    this.tell('all thawed');
    for (const replica of replicas) replica.thaw();
  }

  /** Resolves in the middle of a mailing that nothing has happened to yet, by a replica that runs no report. */
  private midMailing(moment: 'onArrival' | 'onAnswered', act: (found: { mail: Arrival; replica: Replica }) => void) {
    return new Promise<{ mail: Arrival; replica: Replica }>((resolve, reject) => {
      this.signal.addEventListener('abort', () => reject(this.signal.reason), { once: true });
      this.mailServer[moment] = (mail) => {
        const count = this.count(mail);
        const replica = this.fleet.get(mail.replica);
        if (count < AFTER_MAILS || replica?.state !== 'running' || this.work.has(replica.name, REPORT)) return;
        if (new Date(mail.fireTime) <= this.from) return;
        if (this.strikes.some(({ fireTime }) => fireTime === mail.fireTime)) return;
        this.mailServer[moment] = () => {};
        act({ mail, replica });
        resolve({ mail, replica });
      };
    });
  }

  private count({ fireTime }: Arrival): number {
    const count = (this.counts.get(fireTime) ?? 0) + 1;
    this.counts.set(fireTime, count);
    return count;
  }

  /** Nothing but the cache is under way or about to be: the other jobs show other things. */
  private async quiet(): Promise<void> {
    const long = this.expected.filter(({ job }) => job !== BALANCES);
    const soon = () => {
      const from = this.clock.now();
      return long.some(
        ({ cron }) => nextFireTimes(cron, { timeZone: 'UTC', from, count: 1 })[0]!.getTime() - from.getTime() < 500,
      );
    };
    while (soon() || long.some(({ job }) => this.work.anyoneHas(job))) await this.sleep(50);
  }

  private strike(kind: Strike['kind'], { replica, fireTime }: Arrival): void {
    this.strikes.push({ kind, replica, fireTime, at: this.clock.now() });
  }

  private async sleep(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.signal });
  }
}

function seconds(ms: number): number {
  return ms / 1_000;
}
