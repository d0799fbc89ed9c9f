import { Injectable } from '@nestjs/common';
import { Parent } from './parent.js';

/** The true one, whatever the replica is made to believe. */
const pid = process.pid;

/** Stops the process in the middle of several handlers. */
@Injectable()
export class Freezer {
  private readonly arrived: (() => void)[] = [];

  constructor(private readonly parent: Parent) {}

  async freezeTogether(handlers: number): Promise<void> {
    const thawed = new Promise<void>((resolve) => this.arrived.push(resolve));
    if (this.arrived.length === handlers) {
      await this.parent.tell({ kind: 'freezing' });
      process.kill(pid, 'SIGSTOP');
      this.arrived.forEach((goOn) => goOn());
    }
    await thawed;
  }
}
