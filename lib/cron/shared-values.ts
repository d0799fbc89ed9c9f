/**
 * What most jobs have alike, once: of thousands of expressions, lists of all minutes or days would be most of what they
 * take in memory.
 */
export class SharedValues<Value extends object> {
  private readonly known = new Map<string, Value>();

  /** @param most so many are kept; what comes then is kept by whoever has it */
  constructor(private readonly most = 1_000) {}

  /** The value that was made first for this key, which says all of it. */
  of(key: string, make: () => Value): Value {
    const first = this.known.get(key);
    if (first) return first;
    const value = make();
    if (this.known.size < this.most) this.known.set(key, value);
    return value;
  }
}
