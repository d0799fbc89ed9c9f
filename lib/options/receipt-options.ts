import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { anything, expected, functionOf, integer, oneOf, type Rule } from './option-rules.js';
import { readOptions, type OptionTable, type Values } from './read-options.js';

/** A text; what it may hold is for the receipt's key to judge. */
const effect: Rule<string> = (given) => (typeof given === 'string' ? { value: given } : expected('a text', given));

/** More than one statement should carry. */
const MOST_IN_A_BATCH = 5_000;

const ONE = { effect: { rule: effect }, in: { rule: anything } } satisfies OptionTable;
const ONCE = { ...ONE, run: { rule: anything } } satisfies OptionTable;
const MANY = { effect: { rule: effect }, run: { rule: anything }, key: { rule: functionOf<(item: unknown) => unknown>('an item') } } satisfies OptionTable;
const EACH = {
  ...MANY,
  in: { rule: anything },
  batch: { rule: integer({ atLeast: 1, atMost: MOST_IN_A_BATCH }) },
  concurrency: { rule: integer({ atLeast: 1 }) },
  maxFailures: { rule: integer({ atLeast: 0 }) },
  failures: { rule: oneOf('throw', 'return') },
} satisfies OptionTable;

const TABLES = { once: ONCE, onceForOccurrence: ONE, pending: MANY, onceEach: EACH, onceBatch: EACH };

/** Reads the options of one of the receipts' verbs. @throws InvalidOptionsError with all problems */
export function receiptOptions<Verb extends keyof typeof TABLES>(verb: Verb, given: object): Partial<Values<(typeof TABLES)[Verb]>> {
  const { values, problems } = readOptions(given, TABLES[verb], `${verb}: `);
  if (problems.length > 0) throw new InvalidOptionsError(problems);
  return values as Partial<Values<(typeof TABLES)[Verb]>>;
}
