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
 * Does the work for each, so many at a time, and ends the source. After work that answered false or threw nothing more
 * is begun; what is under way is waited for.
 * @throws what the first of them threw
 */
export async function inParallel<Item>(
  count: number,
  items: AsyncGenerator<Item, void>,
  work: (item: Item) => Promise<boolean>,
): Promise<void> {
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

/**
 * Acts on one after the other; one's trouble is not the others'.
 * @param isOver asked before each: those left are left out
 * @throws what the first that failed threw, once all have had their turn
 */
export async function forEachSettled<Item>(
  items: Iterable<Item>,
  isOver: () => boolean,
  act: (item: Item) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  for (const item of items) {
    if (isOver()) break;
    await act(item).catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}

/** Lets so many pieces of work go on at a time; the others wait, in the order they came, for as long as it takes. */
export class Slots {
  private readonly waiting: (() => void)[] = [];
  private taken = 0;

  constructor(readonly count: number) {}

  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.taken >= this.count) await new Promise<void>((resolve) => this.waiting.push(resolve));
    else this.taken += 1;
    try {
      return await work();
    } finally {
      const next = this.waiting.shift();
      if (next) next();
      else this.taken -= 1;
    }
  }
}

/**
 * Waits for the work, at most so many milliseconds; a failure in time is thrown.
 * @returns false when it goes on, and whether it fails later interests nobody
 */
export async function within(millis: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const impatience = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(false), millis)));
  try {
    return await Promise.race([work.then(() => true), impatience]);
  } finally {
    clearTimeout(timer);
  }
}
