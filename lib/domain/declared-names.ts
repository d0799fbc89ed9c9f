import { textHash } from './text-hash.js';

/** A number for all that an instance can run: the same for the same names, in any order, and hardly ever for others. */
export function numberOfNames(jobNames: readonly string[], handlers: readonly string[]): number {
  const hashes = [...jobNames.map((name) => textHash(`job ${name}`)), ...handlers.map((name) => textHash(`handler ${name}`))];
  return hashes.reduce((sum, hash) => (sum ^ hash) >>> 0, 0);
}
