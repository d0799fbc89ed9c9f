import { ConsoleLogger } from '@nestjs/common';
import { tellParent } from './parent.js';

/** What the scheduler logs, the demo shows from its events; here are the application's own warnings, for the parent. */
export class ParentLogger extends ConsoleLogger {
  constructor() {
    super({ logLevels: ['warn', 'error', 'fatal'], colors: false });
  }

  override warn(message: unknown, ...context: unknown[]): void {
    if (context.at(-1) !== 'DistributedScheduler') tellParent({ kind: 'log', text: String(message) });
  }

  override error(message: unknown, ...context: unknown[]): void {
    if (context.at(-1) !== 'DistributedScheduler') tellParent({ kind: 'log', text: String(message) });
  }
}
