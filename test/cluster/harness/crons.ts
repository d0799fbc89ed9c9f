import type { Ledger } from './ledger.js';

export const EVERY_SECOND = '* * * * * *';

/**
 * An expression that fires in some seconds, and then every ten seconds: far enough apart for one occurrence to be told
 * to its end, and soon again when starting a replica took longer than thought.
 */
export async function everyTenSeconds(ledger: Ledger, inSeconds = 3): Promise<string> {
  const first = new Date((await ledger.now()).getTime() + inSeconds * 1_000).getUTCSeconds() % 10;
  return `${[0, 10, 20, 30, 40, 50].map((tens) => first + tens).join()} * * * * *`;
}
