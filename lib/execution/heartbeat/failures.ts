import { databaseTrouble } from '../../domain/database-trouble.js';
import { describeError } from '../../domain/runs/stored-error.js';
import type { FromThread } from './heartbeat.messages.js';

/** What the connections of the heartbeat's thread fail with, told as of one: mostly they fail together. */
export class Failures {
  /** What each of those that fail has failed with last. */
  private readonly failing = new Map<string, string>();

  constructor(private readonly tell: (message: FromThread) => void) {}

  /**
   * Told once, and again when it is something else: a password may have run out while the server was away.
   * @param what the connection is for
   */
  failed(what: string, error: unknown): void {
    const trouble = databaseTrouble(error);
    const kind = trouble?.kind ?? 'something else';
    if (![...this.failing.values()].includes(kind)) this.tell({ type: 'failed', error: describeError(error), trouble });
    this.failing.set(what, kind);
  }

  /** Told when all work again. */
  recovered(what: string): void {
    if (this.failing.delete(what) && this.failing.size === 0) this.tell({ type: 'recovered' });
  }
}
