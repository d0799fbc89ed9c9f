import { GiveUp } from './give-up.error.js';

/** A handler returned a generator: a call makes one, and runs nothing of it. No further attempt would do better. */
export class GeneratorReturnedError extends GiveUp {
  /** @param place the method, for people: `Invoices.export` */
  constructor(place: string) {
    super(`${place} returned a generator, whose code has not run: iterate it inside the handler, and return when it has ended`);
  }
}
