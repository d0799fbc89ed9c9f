/** One measured value. Less is better, whatever the unit. */
export interface Figure {
  /** `benchmark.what`, the same from run to run. */
  readonly name: string;
  readonly value: number;
  readonly unit:
    | 'ms'
    | 'µs'
    | 'MB'
    | 'a run'
    | 'a second'
    | 'a beat'
    | 'a start'
    | 'share'
    | 'times'
    | '%'
    | 'bytes'
    | 'GB'
    | 'connections';
  /**
   * What the machine needs for the least that any solution must do, measured in the same run; in the same unit.
   * Nothing, where nothing need be done.
   */
  readonly floor: number;
  /**
   * What the value should stay within, in the same unit: a bound of its own, or drawn from another figure of the run.
   */
  readonly reach: number;
}

/** How much is measured: `quick` shows that a benchmark works, its figures mean nothing. */
export interface Effort {
  readonly quick: boolean;
  /** How often each value is measured; the median counts. */
  readonly samples: number;
}

/** One file that measures one thing. It throws when it could not be measured. */
export interface Benchmark {
  readonly name: string;
  readonly about: string;
  run(effort: Effort): Promise<Figure[]>;
}

export const FULL: Effort = { quick: false, samples: 7 };

export const QUICK: Effort = { quick: true, samples: 1 };
