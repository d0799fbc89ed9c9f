/** What can be gone through once, also while it is still being read from somewhere. */
export type Items<Item> = Iterable<Item> | AsyncIterable<Item>;

/** So many at a time, taken from the source only when they are asked for. */
export async function* chunksOf<Item>(items: Items<Item>, size: number): AsyncGenerator<Item[], void> {
  let chunk: Item[] = [];
  for await (const item of items) {
    chunk.push(item);
    if (chunk.length < size) continue;
    yield chunk;
    chunk = [];
  }
  if (chunk.length > 0) yield chunk;
}

/**
 * Does the work for each, so many at a time, and ends the source. After work that answered false or threw nothing more is
 * begun; what is under way is waited for.
 * @throws what the first of them threw
 */
export async function inParallel<Item>(count: number, items: AsyncGenerator<Item, void>, work: (item: Item) => Promise<boolean>): Promise<void> {
  const failures: unknown[] = [];
  let over = false;
  const worker = async () => {
    while (!over) {
      const { done, value } = await items.next();
      if (done || over) return;
      if (!(await work(value))) over = true;
    }
  };
  const stop = (error: unknown) => {
    over = true;
    failures.push(error);
  };
  await Promise.all(Array.from({ length: count }, () => worker().catch(stop)));
  await items.return();
  if (failures.length > 0) throw failures[0];
}
