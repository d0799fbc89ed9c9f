import { SchedulerError } from './scheduler.error.js';

/** The scheduler was asked for something while Nest still makes the providers of the application. */
export class TooEarlyError extends SchedulerError {
  constructor(asked: string) {
    super(`${asked} was called before the application's providers are there (in a constructor or a factory): call it in onModuleInit, or later.`);
  }
}
