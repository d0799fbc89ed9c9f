import type { RunStatus } from '../../lib/options/run.js';

/** A move of a run from one status to another, and the verb it happens by. */
export interface RunMove {
  readonly from: RunStatus;
  readonly to: RunStatus;
  /** In the words of `docs/runs.md`: `claim`, `complete`, `reap`, … */
  readonly by: readonly string[];
}

/** How a row may begin. */
export const FIRST_STATES: readonly { readonly status: RunStatus; readonly by: readonly string[] }[] = [
  { status: 'running', by: ['claim'] },
  { status: 'skipped', by: ['skip'] },
  { status: 'queued', by: ['queue', 'catch up', 'backfill', 'run now', 'deliver'] },
];

/**
 * Every move there is: what is not here is refused by the database, whoever tries. Each of a run's attempts begins with
 * a claim; the moves out of `running` are the owner's, in a statement that names the attempt, or the reaper's once the
 * lease is over. The last of a run's pages moves it out of `fanned_out`, where it has no owner. A run that has ended
 * begins again only when a person says so.
 */
export const RUN_MOVES: readonly RunMove[] = [
  { from: 'queued', to: 'running', by: ['claim'] },
  { from: 'queued', to: 'fanned_out', by: ['claim'] },
  { from: 'failed', to: 'running', by: ['claim'] },
  { from: 'orphaned', to: 'running', by: ['claim'] },
  { from: 'running', to: 'done', by: ['complete'] },
  { from: 'running', to: 'fanned_out', by: ['fan out'] },
  { from: 'running', to: 'failed', by: ['fail'] },
  { from: 'running', to: 'dead', by: ['fail', 'reap'] },
  { from: 'running', to: 'queued', by: ['release'] },
  { from: 'running', to: 'orphaned', by: ['reap'] },
  { from: 'running', to: 'cancelled', by: ['cancel', 'reap'] },
  { from: 'fanned_out', to: 'done', by: ['complete'] },
  { from: 'fanned_out', to: 'dead', by: ['fail'] },
  { from: 'fanned_out', to: 'cancelled', by: ['cancel'] },
  { from: 'queued', to: 'cancelled', by: ['cancel'] },
  { from: 'failed', to: 'cancelled', by: ['cancel', 'discard'] },
  { from: 'orphaned', to: 'cancelled', by: ['cancel', 'discard'] },
  { from: 'dead', to: 'cancelled', by: ['discard'] },
  { from: 'dead', to: 'queued', by: ['replay'] },
  { from: 'done', to: 'queued', by: ['replay', 'backfill'] },
  { from: 'skipped', to: 'queued', by: ['replay', 'backfill'] },
  { from: 'cancelled', to: 'queued', by: ['replay', 'backfill'] },
  { from: 'queued', to: 'done', by: ['put back'] },
  { from: 'queued', to: 'dead', by: ['put back'] },
  { from: 'queued', to: 'skipped', by: ['put back'] },
];
