/** What must be undone when the demo ends, in the opposite order, whatever fails on the way. */
export class Cleanup {
  private readonly steps: (() => unknown)[] = [];

  add(step: () => unknown): void {
    this.steps.push(step);
  }

  /** @returns what could not be undone */
  async run(): Promise<unknown[]> {
    const failures: unknown[] = [];
    for (let step = this.steps.pop(); step; step = this.steps.pop()) {
      try {
        await step();
      } catch (error) {
        failures.push(error);
      }
    }
    return failures;
  }
}
