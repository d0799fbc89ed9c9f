import type { AskedToStop } from '../runs/asked-to-stop.js';
import type { StoredJob } from './stored-job.js';

/** What a start finds. */
export interface SeenAtStart extends SeenSchedules {
  /**
   * The database was away until just now, and there are instances that were not heard of since: they may be about to come
   * back. At any other time such an instance is gone.
   */
  readonly othersMayBeBack: boolean;
}

/** What the database has for an instance, and its clock when it said so. */
export interface SeenSchedules {
  readonly databaseNow: Date;
  readonly jobs: readonly StoredJob[];
}

/** What an instance finds when it looks in. */
export interface SeenChanges extends SeenSchedules, AskedToStop {
  /** False: it was taken for gone, and has to announce itself again. */
  readonly present: boolean;
  /** The ids of the instances that are there, in their order. */
  readonly company: readonly string[];
  /** Those of them that declare the same jobs and handlers. */
  readonly peers: readonly string[];
  /** There is a backfill to be fed. */
  readonly backfilling: boolean;
}
