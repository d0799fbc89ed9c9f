import { OWN_TYPES } from './client-config.js';

/** What the server answered to one statement. */
export interface Answer {
  readonly rows: unknown[];
}

/** A connection of pg, whoever has made it. */
interface AnyClient {
  /** Asks for answers in their binary form. */
  binary?: boolean;
  query(query: { readonly text: string; readonly values?: readonly unknown[] | undefined; readonly types: typeof OWN_TYPES; readonly query_timeout?: number }): Promise<Answer | Answer[]>;
}

/**
 * The one way in which a statement of this library reaches a connection: the answer is read by this library's rules, whatever the
 * application has set for its process or for the pool that the connection is of.
 * @param client pg's, as TypeORM or a pool gives it
 * @param patienceMs how long the answer is waited for; as long as the client does, if it is left out
 * @returns an answer for each statement, where there are several
 */
export function ask(client: unknown, text: string, values?: readonly unknown[], patienceMs?: number): Promise<Answer | Answer[]> {
  const asked = client as AnyClient;
  const { binary } = asked;
  try {
    if (binary) asked.binary = false;
    return asked.query({ text, ...(values && { values }), types: OWN_TYPES, ...(patienceMs !== undefined && { query_timeout: patienceMs }) });
  } finally {
    // It is read when the statement is handed over.
    if (binary) asked.binary = binary;
  }
}
