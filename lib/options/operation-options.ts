import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import { expected } from './option-rules.js';
import { readOptions, type OptionTable, type ReadOptions, type Values } from './read-options.js';

/**
 * Reads the options of an operator's verb: one that is misspelt, and left out by that, would do something else than was asked.
 * @param what for people: `SchedulerService.pause`
 * @throws InvalidOptionsError with every problem
 */
export function readOperationOptions<Table extends OptionTable>(given: unknown, table: Table, what: string): Partial<Values<Table>> {
  const { values, problems } = readObject(given, table);
  if (problems.length > 0) throw new InvalidOptionsError(problems.map((problem) => `${what}: ${problem}`));
  return values;
}

/** As `readOptions`, of what may be no object at all; nothing is left out by itself but `undefined`. */
export function readObject<Table extends OptionTable>(given: unknown, table: Table): ReadOptions<Table> {
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return readOptions(given, table, '');
  return { values: {}, problems: given === undefined ? [] : [expected(`an object with ${Object.keys(table).join(', ')}`, given).problem] };
}
