import { distance as editDistance } from 'fastest-levenshtein';

/**
 * The sentence of an option that there is not: the one that was meant, or all that there are. @param path stands before
 * each name: `defaults.`
 */
export function unknownOption(name: string, known: readonly string[], path = ''): string {
  const nearest = nearestTo(name, known);
  return `Unknown option "${path}${name}"; ${nearest === null ? `there are ${known.join(', ')}.` : `did you mean "${path}${nearest}"?`}`;
}

/** The name that was most likely meant; null when none is close. */
export function nearestTo(name: string, known: readonly string[]): string | null {
  const distances = known.map((candidate) => editDistance(name.toLowerCase(), candidate.toLowerCase()));
  const nearest = known[distances.indexOf(Math.min(...distances))];
  return nearest !== undefined && Math.min(...distances) <= Math.max(2, nearest.length / 3) ? nearest : null;
}
