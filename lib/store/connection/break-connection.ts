/** A connection of pg, of which pg itself shows no socket. */
interface Connected {
  readonly connection?: { readonly stream?: { destroy(error?: Error): void } };
  end?(): Promise<void>;
}

/**
 * Breaks a connection of pg at once, without a word to a server that may not answer: what waits for it fails, and its pool
 * makes a new one.
 * @param client pg's `Client`, as TypeORM or a pool gives it
 */
export function breakConnection(client: unknown, why?: Error): void {
  (client as Connected).connection?.stream?.destroy(why);
}

/**
 * The same for a connection that somebody may give back to its pool in this very moment: a pool takes none back that is ending,
 * and hears of a broken one only later.
 */
export function discardConnection(client: unknown): void {
  (client as Connected).end?.().catch(() => {});
  breakConnection(client);
}
