import { Logger } from '@nestjs/common';
import { describeError } from '../errors/stored-error.js';

type Level = 'log' | 'warn' | 'error' | 'debug';

/**
 * Nest's Logger, for what this library says. A logger of the application that throws would end a loop or, from inside a
 * listener, the process: what it was told goes to stderr instead.
 */
export class OwnLogger {
  private readonly logger: Logger;

  constructor(context = 'DistributedScheduler') {
    this.logger = new Logger(context);
  }

  /** @param stack of an error, beside the text */
  write(level: Level, text: string, stack?: string): void {
    try {
      if (level === 'error') this.logger.error(text, stack);
      else this.logger[level](text);
    } catch (error) {
      lastResort(`${text}\n(The application's logger threw: ${describeError(error).message})\n`);
    }
  }

  log(text: string): void {
    this.write('log', text);
  }

  warn(text: string): void {
    this.write('warn', text);
  }

  error(text: string, stack?: string): void {
    this.write('error', text, stack);
  }
}

function lastResort(text: string): void {
  try {
    process.stderr.write(text);
  } catch {
    // Closed, too: nobody is left to be told.
  }
}
