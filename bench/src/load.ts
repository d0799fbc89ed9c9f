import { inFreshProcess } from './sampling.js';

/** What is done to the tables. */
export interface Load {
  readonly url: string;
  readonly runs: number;
  /** So many are claimed at a time, one of each job, and ended together. */
  readonly batch: number;
  /** How often the lease of each run is renewed before it ends. */
  readonly renewals: number;
  readonly overlap: 'allow' | 'forbid';
}

/** Milliseconds, when almost all of it was done: for a batch, and for the reaper's look. */
export interface LoadResult {
  readonly claimMs: number;
  readonly endMs: number;
  readonly outlookMs: number;
}

/** Makes so many runs, in a process of its own. */
export function doLoad(load: Load): Promise<LoadResult> {
  return inFreshProcess<LoadResult>('load.sample.js', JSON.stringify(load));
}
