/** How far a machine's wall clock is from the database's clock. Milliseconds. */
export interface ClockSkew {
  /** Wall clock minus database clock: more than zero when the machine is ahead. */
  readonly skewMs: number;
  /** The true skew is at most this much more or less. */
  readonly uncertaintyMs: number;
}

/** A clock at the very limit is not told about again and again: it agrees when it is clearly inside. */
const AGREES_WITHIN = 0.8;

/** How many times worse than it was told a skew gets before it is told again. */
const MUCH_WORSE = 2;

/**
 * What there is to tell about a clock. A reading that may be wrong itself, because its round trip was slow, neither
 * raises an alarm nor ends one.
 * @param told the skew that was told last, in milliseconds; null while the clocks agree
 * @returns null when it was told already
 */
export function judgeSkew(
  { skewMs, uncertaintyMs }: ClockSkew,
  maxMs: number,
  told: number | null,
): 'skewed' | 'agrees' | null {
  const atLeast = Math.abs(skewMs) - uncertaintyMs;
  const atMost = Math.abs(skewMs) + uncertaintyMs;
  if (told === null) return atLeast > maxMs ? 'skewed' : null;
  if (atMost <= AGREES_WITHIN * maxMs) return 'agrees';
  const worse = Math.sign(skewMs) !== Math.sign(told) || atLeast > MUCH_WORSE * Math.abs(told);
  return worse && atLeast > maxMs ? 'skewed' : null;
}
