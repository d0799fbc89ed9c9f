import { postgresError } from '../connection/sql-state.js';

/** True for the failure of a statement that was sent with a commit: the run is no longer ours, and nothing was committed. It is raised by `refuse_1`. */
export function isRefusedClose(error: unknown): boolean {
  return postgresError(error).code === 'NDC01';
}
