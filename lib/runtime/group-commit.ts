import { inCleanContext } from './clean-context.js';

/** How a group commit behaves. */
export interface GroupCommitOptions {
  /** Items in one group at most. */
  readonly most: number;
  /** After so many milliseconds without an answer the next group goes without waiting for it. */
  readonly slowAfterMs: number;
}

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Writes together what comes while something is being written. Nothing waits for a timer: the first item goes at the end of
 * the event loop's turn, with what the turn brought, and what comes meanwhile goes as one group when the answer is there.
 */
export class GroupCommit<Item, Answer> {
  private waiting: Waiting<Item, Answer>[] = [];
  private scheduled = false;
  /** The group that is being written, and waited for. */
  private underWay: object | null = null;

  /** @param commit writes a group; its answers are in the order of the items. What it throws is thrown at all of them */
  constructor(
    private readonly commit: (items: readonly Item[]) => Promise<readonly Answer[]>,
    private readonly options: GroupCommitOptions,
  ) {}

  add(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ item, resolve, reject });
      this.schedule();
    });
  }

  private schedule(): void {
    if (this.scheduled || this.underWay || this.waiting.length === 0) return;
    this.scheduled = true;
    const write = () => {
      this.scheduled = false;
      void this.writeNext();
    };
    // A group is no single caller's.
    inCleanContext(() => setImmediate(write));
  }

  private async writeNext(): Promise<void> {
    const group = this.waiting.splice(0, this.options.most);
    const token = (this.underWay = {});
    const goOn = () => {
      if (this.underWay !== token) return;
      this.underWay = null;
      this.schedule();
    };
    const impatience = setTimeout(goOn, this.options.slowAfterMs);
    impatience.unref();
    try {
      const answers = await this.commit(group.map(({ item }) => item));
      group.forEach(({ resolve }, index) => resolve(answers[index]!));
    } catch (error) {
      for (const { reject } of group) reject(error);
    } finally {
      clearTimeout(impatience);
      goOn();
    }
  }
}
