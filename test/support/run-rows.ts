import type { RunStatus } from '../../lib/options/run.js';
import { FIRST_STATES, RUN_MOVES } from './run-moves.js';
import type { TestDatabase } from './database.js';

/** Every status, in the order in which a run comes by them. */
export const RUN_STATES: readonly RunStatus[] = [
  'queued',
  'running',
  'fanned_out',
  'done',
  'failed',
  'orphaned',
  'dead',
  'skipped',
  'cancelled',
];

/** What a row of a status must have. */
export function columnsOf(status: RunStatus): string {
  const waits = ['queued', 'failed', 'orphaned'].includes(status);
  const leased = status === 'running' ? `, claimed_by = 'A', attempt = 1, lease_until = now() + interval '1 hour'` : '';
  const fannedOut = status === 'fanned_out' ? `, claimed_by = 'A', lease_until = null, pages = 1` : '';
  return `status = '${status}', reason = 'test', next_attempt_at = ${waits ? 'now()' : 'null'}${leased}${fannedOut}`;
}

/** A row of any status, brought there by moves that are allowed. */
export async function insertRun(
  database: TestDatabase,
  jobName: string,
  fireTime: Date,
  status: RunStatus,
): Promise<void> {
  const [first, ...moves] = pathTo(status);
  await database.query(
    `insert into job_runs (job_name, fire_time, status, trigger, reason, next_attempt_at, claimed_by, attempt, lease_until)
     select $1, $2, $3, 'schedule', 'test',
            case when $3 = 'queued' then now() end,
            case when $3 = 'running' then 'A' end,
            case when $3 = 'running' then 1 else 0 end,
            case when $3 = 'running' then now() + interval '1 hour' end`,
    [jobName, fireTime, first],
  );
  for (const move of moves)
    await database.query(`update job_runs set ${columnsOf(move)} where job_name = $1 and fire_time = $2`, [
      jobName,
      fireTime,
    ]);
}

function pathTo(status: RunStatus): RunStatus[] {
  const paths: RunStatus[][] = FIRST_STATES.map((first) => [first.status]);
  for (let path = paths.shift(); path; path = paths.shift()) {
    const last = path.at(-1)!;
    if (last === status) return path;
    if (path.length < 4) paths.push(...RUN_MOVES.filter(({ from }) => from === last).map(({ to }) => [...path!, to]));
  }
  throw new Error(`Nothing leads to ${status}`);
}
