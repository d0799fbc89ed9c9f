import type { Report } from '../replica/messages.js';

/** What one replica has told so far, and who waits for more. */
export class Reports {
  private readonly heard: Report[] = [];
  private readonly listeners = new Set<() => void>();
  private end: string | null = null;

  constructor(private readonly replica: string) {}

  hear(report: Report): void {
    this.heard.push(report);
    this.look();
  }

  /** Nothing more will come. @param words how the replica ended, and its last words */
  close(words: string): void {
    this.end = words;
    this.look();
  }

  /** Everything told so far that is of interest. */
  all<Found>(pick: (report: Report) => Found | undefined): Found[] {
    return this.heard.map(pick).filter((found) => found !== undefined);
  }

  /** Waits until the replica has told it, or finds that it has. The error says what was awaited and what was heard. */
  waitFor<Found>(what: string, pick: (report: Report) => Found | undefined, withinMs: number): Promise<Found> {
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => {
        clearTimeout(bound);
        this.listeners.delete(look);
        act();
      };
      const fail = (why: string) =>
        settle(() =>
          reject(new Error(`${this.replica}: waited for ${what}; ${why}. Heard last:\n${this.lastHeard()}`)),
        );
      const look = () => {
        const [found] = this.all(pick);
        if (found !== undefined) settle(() => resolve(found));
        else if (this.end !== null) fail(this.end);
      };
      const bound = setTimeout(() => fail(`not within ${withinMs} ms`), withinMs);
      bound.unref();
      this.listeners.add(look);
      look();
    });
  }

  private look(): void {
    for (const look of [...this.listeners]) look();
  }

  private lastHeard(): string {
    return (
      this.heard
        .slice(-15)
        .map((report) => JSON.stringify(report).slice(0, 300))
        .join('\n') || 'nothing'
    );
  }
}
