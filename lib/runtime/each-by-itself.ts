/**
 * Acts on one after the other; one's trouble is not the others'.
 * @param isOver asked before each: those left are left out
 * @throws what the first that failed threw, once all have had their turn
 */
export async function eachByItself<Item>(items: Iterable<Item>, isOver: () => boolean, act: (item: Item) => Promise<void>): Promise<void> {
  const failures: unknown[] = [];
  for (const item of items) {
    if (isOver()) break;
    await act(item).catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}
