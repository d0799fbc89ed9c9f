import type { Ledger } from './ledger.js';

export const EVERY_SECOND = '* * * * * *';

/**
 * An expression that fires in some seconds, and then three times a minute: far enough apart for one occurrence to be
 * told to its end, and soon again when starting a replica took longer than thought.
 */
export async function everyTwentySeconds(ledger: Ledger, inSeconds = 3): Promise<string> {
  const first = (new Date((await ledger.now()).getTime() + inSeconds * 1_000).getUTCSeconds()) % 20;
  return `${first},${first + 20},${first + 40} * * * * *`;
}
