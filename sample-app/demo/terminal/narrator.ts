import type { SchedulerEvent } from 'nestjs-distributed-cron';
import type { ReplicaMessage } from '../../src/demo/messages.js';
import type { Arrival } from '../mail-server.js';
import { CUSTOMERS } from '../seed.js';
import type { WorkInHand } from '../work-in-hand.js';
import type { Screen } from './screen.js';
import { clock, replicaColor, type Colors } from './style.js';
import { wordingOf } from './wording.js';

/** Of so many mails, one is told. */
const TELL_EVERY = 12;

/** Tells what happens, a line at a time. */
export class Narrator {
  /** Statements that were there already when a later attempt came to them, not yet told. */
  private readonly repetitions = new Map<string, number>();
  private readonly mails = new Map<string, number>();
  /** Since the beginning. */
  prevented = 0;
  takeOvers = 0;
  doubts = 0;

  constructor(
    private readonly screen: Screen,
    private readonly colors: Colors,
    private readonly work: WorkInHand,
  ) {}

  /** Something that the demo itself does. */
  act(text: string, replica?: string): void {
    this.write(this.colors.isColorSupported ? this.colors.inverse(` ${text} `) : `>> ${text}`, replica);
  }

  say(text: string, replica?: string): void {
    this.write(text, replica);
  }

  hear(replica: string, message: ReplicaMessage): void {
    if (message.kind === 'log') this.write(this.colors.red(`says: ${message.text}`), replica);
    if (message.kind === 'event') this.event(replica, message.event);
  }

  mail({ fireTime, replica, customerId, repeated }: Arrival): void {
    if (repeated)
      return this.write(
        this.colors.yellow(
          `mail for customer ${customerId} came again from ${replica} under the same Message-ID: dropped`,
        ),
      );
    const count = (this.mails.get(fireTime) ?? 0) + 1;
    this.mails.set(fireTime, count);
    if (count % TELL_EVERY === 0)
      this.write(`mailed ${count} of ${CUSTOMERS} statements of ${clock(new Date(fireTime))}`, replica);
  }

  /** How far the newest mailing is. */
  get newestMailing(): { fireTime: Date; count: number } | null {
    const newest = [...this.mails].at(-1);
    return newest ? { fireTime: new Date(newest[0]), count: newest[1] } : null;
  }

  private event(replica: string, event: SchedulerEvent): void {
    if (event.type === 'run.orphaned') this.takeOvers++;
    if (event.type === 'effect.inDoubt') this.doubts++;
    if (event.type === 'receipt.duplicate') {
      if (event.effect === 'mail') return;
      this.prevented++;
      this.repetitions.set(replica, (this.repetitions.get(replica) ?? 0) + 1);
      return;
    }
    this.tellRepetitions(replica);
    const text = wordingOf(event, this.colors, (instanceId) => this.work.nameOf(instanceId));
    if (text) this.write(text, replica, event.at);
  }

  private tellRepetitions(replica: string): void {
    const count = this.repetitions.get(replica);
    if (!count) return;
    this.repetitions.delete(replica);
    this.write(
      this.colors.bold(`${count} ${count === 1 ? 'statement was' : 'statements were'} there already: not repeated`),
      replica,
    );
  }

  private write(text: string, replica?: string, at = new Date()): void {
    this.screen.line(
      `${this.colors.dim(clock(at, true))}  ${replica ? replicaColor(this.colors, replica) : ' '}  ${text}`,
    );
  }
}
