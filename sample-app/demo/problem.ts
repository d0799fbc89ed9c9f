/** Something a person can put right: told in a sentence or two, without a stack trace. */
export class Problem extends Error {}

/** What to print about an error that ended the demo. */
export function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const expected = error instanceof Problem || error.constructor.name.endsWith('Error') && 'cause' in error;
  return expected || !error.stack ? error.message : error.stack;
}
