interface Entry<Key> {
  readonly key: Key;
  at: number;
  /** Its place in the heap. */
  index: number;
}

/**
 * Keys in the order of the instants they are due: a binary heap that knows where each key stands, so that any of them
 * can be moved or taken out. To look at what is due costs as much as is due, however many others there are.
 */
export class DueQueue<Key> {
  /** The parent of `i` is `(i - 1) >> 1`, and never due after its children. */
  private readonly heap: Entry<Key>[] = [];
  private readonly entries = new Map<Key, Entry<Key>>();

  get size(): number {
    return this.heap.length;
  }

  /** Puts a key in, or moves it. */
  set(key: Key, at: number): void {
    const known = this.entries.get(key);
    if (known?.at === at) return;
    const entry = known ?? { key, at, index: this.heap.length };
    if (!known) {
      this.entries.set(key, entry);
      this.heap.push(entry);
    }
    entry.at = at;
    this.settle(entry);
  }

  delete(key: Key): void {
    const entry = this.entries.get(key);
    if (!entry) return;
    this.entries.delete(key);
    const last = this.heap.pop()!;
    if (last === entry) return;
    last.index = entry.index;
    this.settle(last);
  }

  /** What is due at an instant, the earliest first. */
  due(now: number): Key[] {
    const due: Entry<Key>[] = [];
    this.walk(
      now,
      (entry) => due.push(entry),
      () => {},
    );
    return due.sort((a, b) => a.at - b.at).map(({ key }) => key);
  }

  /**
   * The earliest instant after `now` at which a key is due; Infinity when there is none. Costs as much as is due until
   * then.
   */
  nextAfter(now: number): number {
    let earliest = Infinity;
    this.walk(
      now,
      () => {},
      ({ at }) => (earliest = Math.min(earliest, at)),
    );
    return earliest;
  }

  /** From the top: what is due, and the first entries behind it that are not. */
  private walk(now: number, due: (entry: Entry<Key>) => void, later: (entry: Entry<Key>) => void): void {
    const open = [0];
    for (let index = open.pop(); index !== undefined; index = open.pop()) {
      const entry = this.heap[index];
      if (!entry) continue;
      if (entry.at > now) {
        later(entry);
        continue;
      }
      due(entry);
      open.push(2 * index + 1, 2 * index + 2);
    }
  }

  /** Moves an entry up while it is earlier than its parent, or down while it is later than a child. */
  private settle(entry: Entry<Key>): void {
    let index = entry.index;
    for (
      let parent = this.heap[(index - 1) >> 1];
      index > 0 && parent!.at > entry.at;
      parent = this.heap[(index - 1) >> 1]
    ) {
      const above = parent!.index;
      this.place(parent!, index);
      index = above;
    }
    for (let child = this.earlierChild(index); child && child.at < entry.at; child = this.earlierChild(index)) {
      const below = child.index;
      this.place(child, index);
      index = below;
    }
    this.place(entry, index);
  }

  private earlierChild(index: number): Entry<Key> | undefined {
    const left = this.heap[2 * index + 1];
    const right = this.heap[2 * index + 2];
    return left && right && right.at < left.at ? right : left;
  }

  private place(entry: Entry<Key>, index: number): void {
    this.heap[index] = entry;
    entry.index = index;
  }
}
