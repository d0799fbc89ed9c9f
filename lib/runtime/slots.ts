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
