/**
 * The base of every error this library throws on purpose: something a person has to act on.
 * What a healthy cluster does every minute (losing a claim, an occurrence that overlaps) is a value, never an error.
 */
export abstract class SchedulerError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}
