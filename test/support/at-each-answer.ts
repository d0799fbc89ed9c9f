import type { EventEmitter } from 'node:events';
import type { DataSource } from 'typeorm';

type Query = (...args: unknown[]) => unknown;
type Callback = (error: unknown, result?: unknown) => void;

/**
 * Looks at something whenever the server has answered a message of the data source, before whoever sent it hears of
 * that: there its process may be frozen, or busy, for as long as it likes.
 * @param look given the message's text
 */
export function atEachAnswer(dataSource: DataSource, look: (sent: string) => Promise<void>): void {
  const { master } = dataSource.driver as unknown as { master: EventEmitter };
  const patched = new WeakSet<object>();
  master.on('acquire', (client: { query: Query }) => {
    if (patched.has(client)) return;
    patched.add(client);
    const query = client.query.bind(client) as Query;
    client.query = (...args: unknown[]) => {
      const sent = typeof args[0] === 'string' ? args[0] : String((args[0] as { text?: string }).text);
      const callback = args.at(-1);
      if (typeof callback === 'function')
        return query(
          ...args.slice(0, -1),
          (error: unknown, result: unknown) =>
            void look(sent).then(() => (callback as Callback)(error, result), callback as Callback),
        );
      const answer = query(...args);
      if (!(answer instanceof Promise)) return answer;
      return answer.then(
        (result: unknown) => look(sent).then(() => result),
        (error: unknown) => look(sent).then(() => Promise.reject(error)),
      );
    };
  });
}
