import { ask } from './ask.js';

/** SQL and its values: `$1` is the first. */
export interface Statement {
  readonly text: string;
  readonly values: readonly (string | number | null | readonly string[])[];
}

/** What pg offers on a connection for statements that carry their values in their text. */
export interface MessageClient {
  query(text: string): Promise<unknown>;
  escapeLiteral(text: string): string;
}

/**
 * Sends the statements as one message: one way to the server and back for all of them. The first that fails ends it.
 * @returns the rows of each
 */
export async function sendTogether(client: MessageClient, statements: readonly (Statement | string)[]): Promise<unknown[][]> {
  const text = statements.map((statement) => (typeof statement === 'string' ? statement : inlined(statement, client)));
  return [await ask(client, text.join(';\n'))].flat().map(({ rows }) => rows);
}

/**
 * The text with its values in it: a message of several statements takes no parameters. What stands in quotes is left as it is: a schema
 * may have the name `a$1b`.
 */
function inlined({ text, values }: Statement, client: MessageClient): string {
  return text.replace(/"[^"]*"|'[^']*'|\$(\d+)/g, (whole, position?: string) => (position === undefined ? whole : literal(values[Number(position) - 1]!, client)));
}

function literal(value: Statement['values'][number], client: MessageClient): string {
  if (value === null || typeof value === 'number') return String(value);
  return typeof value === 'string' ? client.escapeLiteral(value) : `array[${value.map((one) => client.escapeLiteral(one)).join(', ')}]`;
}
