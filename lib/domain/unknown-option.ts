import leven from 'leven';

/** The sentence of an option that there is not: the one that was meant, or all that there are. @param path stands before each name: `defaults.` */
export function unknownOption(name: string, known: readonly string[], path = ''): string {
  const distances = known.map((candidate) => leven(name.toLowerCase(), candidate.toLowerCase()));
  const nearest = known[distances.indexOf(Math.min(...distances))]!;
  const close = Math.min(...distances) <= Math.max(2, nearest.length / 3);
  return `Unknown option "${path}${name}"; ${close ? `did you mean "${path}${nearest}"?` : `there are ${known.join(', ')}.`}`;
}
