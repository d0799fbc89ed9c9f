import { Logger, type LoggerService } from '@nestjs/common';
import { describeError } from '../errors/stored-error.js';

type Level = 'log' | 'warn' | 'error' | 'debug';

/**
 * Nest's Logger, for what this library says. A logger of the application that throws or rejects would end a loop, or the
 * process: what it was told goes to stderr instead.
 */
export class OwnLogger {
  private readonly logger: Logger;

  constructor(context = 'DistributedScheduler') {
    this.logger = new GuardedLogger(context);
  }

  /** @param stack of an error, beside the text */
  write(level: Level, text: string, stack?: string): void {
    unattended(
      () => (level === 'error' ? this.logger.error(text, stack) : this.logger[level](text)),
      (error) => lost(text, error),
    );
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

/** Nest's Logger returns nothing of what the application's returns, and calls it later where lines are buffered. */
class GuardedLogger extends Logger {
  override get localInstance(): LoggerService {
    const logger = super.localInstance as LoggerService | undefined;
    if (!logger) return logger as never;
    const guarded =
      (level: Level) =>
      (text: unknown, ...rest: unknown[]) =>
        unattended(
          () => logger[level]?.(text, ...rest),
          (error) => lost(text, error),
        );
    return { log: guarded('log'), warn: guarded('warn'), error: guarded('error'), debug: guarded('debug') };
  }
}

/** Calls code of the application that is not waited for: what it throws or rejects with ends no process. */
export function unattended(call: () => unknown, failed: (error: unknown) => void): void {
  try {
    const returned = call();
    if (isPromise(returned)) Promise.resolve(returned).catch(failed);
  } catch (error) {
    failed(error);
  }
}

/** The answer of the application's code that is used at once: what a promise in its place rejects with ends no process. */
export function atOnce<T>(answer: T): T {
  if (isPromise(answer)) Promise.resolve(answer).catch(() => {});
  return answer;
}

/** Of any library. */
export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === 'function';
}

function lost(text: unknown, error: unknown): void {
  try {
    process.stderr.write(`${String(text)}\n(The application's logger threw: ${describeError(error).message})\n`);
  } catch {
    // Closed, too: no place is left to say it.
  }
}
