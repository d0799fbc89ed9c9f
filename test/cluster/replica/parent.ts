import { Injectable } from '@nestjs/common';
import type { Attempt, Opening, Report } from './messages.js';
import type { Step } from './settings.js';

/** The test at the other end of the channel. */
@Injectable()
export class Parent {
  private readonly openings = new Map<string, (steps: readonly Step[]) => void>();

  constructor() {
    process.on(
      'message',
      (opening: Opening | { call: unknown }) =>
        void ('gate' in opening && this.openings.get(key(opening.gate, opening))?.(opening.steps)),
    );
  }

  /** Resolves when the report is on its way, so that a process that stops next has told. */
  async tell(report: Report): Promise<void> {
    if (process.connected) await new Promise<void>((resolve) => process.send!(report, undefined, {}, () => resolve()));
  }

  /** @returns what the test wants done before the handler goes on */
  async passGate(gate: string, { jobName, fireTime, attempt }: Attempt): Promise<readonly Step[]> {
    const opened = new Promise<readonly Step[]>((resolve) =>
      this.openings.set(key(gate, { jobName, fireTime, attempt }), resolve),
    );
    await this.tell({ kind: 'gate', gate, jobName, fireTime, attempt });
    return opened;
  }
}

function key(gate: string, { jobName, fireTime, attempt }: Attempt): string {
  return `${gate} ${jobName} ${fireTime.toISOString()} ${attempt}`;
}
