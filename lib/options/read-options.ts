import { unknownOption } from '../errors/errors.js';
import type { Rule } from './option-rules.js';

/** One line of a table of options: how it is read, and what it is when it is left out. */
export interface Option<T> {
  readonly rule: Rule<T>;
  readonly byDefault?: T;
}

/** Options by name. */
export type OptionTable = Readonly<Record<string, Option<any>>>;

/** What a table's options are once read. */
export type Values<Table extends OptionTable> = {
  -readonly [Name in keyof Table]: Table[Name] extends { readonly rule: Rule<infer T> } ? T : never;
};

/** The values of those options that have a default. */
export type Defaults<Table extends OptionTable> = Pick<
  Values<Table>,
  { [Name in keyof Table]: Table[Name] extends { readonly byDefault: unknown } ? Name : never }[keyof Table]
>;

/** Those that were given, and the problems with the rest. `undefined` is the same as left out. */
export interface ReadOptions<Table extends OptionTable> {
  readonly values: Partial<Values<Table>>;
  readonly problems: readonly string[];
}

/** Reads an options object by its table. `path` stands before each name in a problem: `defaults.`. */
export function readOptions<Table extends OptionTable>(given: object, table: Table, path: string): ReadOptions<Table> {
  const values: Record<string, unknown> = {};
  const problems: string[] = [];
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(table, name)) problems.push(unknownOption(name, Object.keys(table), path));
    else if (value !== undefined) {
      const reading = table[name].rule(value);
      if ('value' in reading) values[name] = reading.value;
      else problems.push(`${path}${name}: ${reading.problem}`);
    }
  }
  return { values: values as Partial<Values<Table>>, problems };
}

/** What the options are when nobody gives them. */
export function defaultsOf<Table extends OptionTable>(table: Table): Defaults<Table> {
  const withDefault = Object.entries(table).filter(([, option]) => option.byDefault !== undefined);
  return Object.fromEntries(withDefault.map(([name, option]) => [name, option.byDefault])) as Defaults<Table>;
}
