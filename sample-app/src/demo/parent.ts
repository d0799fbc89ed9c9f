import type { ReplicaMessage } from './messages.js';

/** Tells the process that started this replica; without one, or when it is gone, nobody. */
export function tellParent(message: ReplicaMessage): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}
