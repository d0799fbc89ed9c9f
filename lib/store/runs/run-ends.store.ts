import type { OwnedRun } from '../../domain/runs/run.js';
import type { Ending, WrittenEnd } from './job-run.store.js';
import { sparse } from '../connection/sparse.js';
import type { SchedulerDatabase } from '../scheduler-database.js';

/** How one attempt ended. */
export interface RunEnd {
  readonly run: OwnedRun;
  /** Null when it completed. */
  readonly ending: Ending | null;
}

/** What became of one end of several. */
export type EndAnswer =
  | { readonly kind: 'written'; readonly end: WrittenEnd }
  /** Somebody holds the row, or the run is no longer ours. To be written by itself, which tells. */
  | { readonly kind: 'passed over' };

/** Ends attempts, each behind its own fence: whose lease is over, or who was reaped, changes nothing. */
export class RunEndsStore {
  constructor(private readonly database: SchedulerDatabase) {}

  /**
   * A row that somebody else holds is passed over, so that it does not hold up the others; for that reason, too, two such
   * statements never wait for each other crosswise.
   * @returns an answer for each, in the order they were given
   */
  endAll(ends: readonly RunEnd[]): Promise<EndAnswer[]> {
    return writeEnds(this.database, ends, false);
  }
}

/** @param patient waits for rows that somebody holds: then what is passed over is no longer ours */
export async function writeEnds(database: SchedulerDatabase, ends: readonly RunEnd[], patient: boolean): Promise<EndAnswer[]> {
  if (ends.length === 0) return [];
  const { instanceId } = ends[0]!.run;
  const given = ends.map(({ run, ending }, place) => {
    const { jobName, fireTime, attempt } = run;
    return sparse({ place, jobName, fireTime, attempt, instanceId: run.instanceId === instanceId ? null : run.instanceId, ...ending });
  });
  const rows = await database.call<EndedRow>('job_run_end_1', [JSON.stringify(given), instanceId, patient]);
  const found = new Map(rows.map((row) => [row.place, row]));
  return ends.map((_, place) => answerOf(found.get(place)));
}

interface EndedRow {
  readonly place: number;
  readonly status: WrittenEnd['status'];
  readonly reason: string | null;
}

function answerOf(row: EndedRow | undefined): EndAnswer {
  return row ? { kind: 'written', end: { status: row.status, reason: row.reason } } : { kind: 'passed over' };
}
