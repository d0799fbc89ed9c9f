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

/**
 * Which server answered, and how many connections had been lost before it was asked. What was said before may be gone from
 * another server, and from one that was restarted: a standby that was promoted lacks what it had not been sent, and a server that
 * crashed what was not on its disk (`synchronous_commit`).
 */
export interface ServerSeen {
  readonly server: string;
  readonly lost: number;
}

/** What the database has for an instance, and its clock when it said so. */
export interface SeenSchedules {
  readonly seenOn: ServerSeen;
  readonly databaseNow: Date;
  readonly jobs: readonly StoredJob[];
}

/** What an instance finds when it looks in. */
export interface SeenChanges extends SeenSchedules, AskedToStop {
  /** The server is not surely the one that was trusted last: the jobs are all there are, and what was decided may not be any more. */
  readonly isOther: boolean;
  /** False: it was taken for gone, and has to announce itself again. */
  readonly present: boolean;
  /** The ids of the instances that are there, in their order. */
  readonly company: readonly string[];
  /** Those of them that declare the same jobs and handlers. */
  readonly peers: readonly string[];
  /** There is a backfill to be fed. */
  readonly backfilling: boolean;
}
