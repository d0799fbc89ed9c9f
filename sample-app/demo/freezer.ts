import { spawn } from 'node:child_process';

export interface Frozen {
  thaw(): void;
}

/**
 * Freezes a process. A frozen process cannot notice that we are gone; so a shell waits at the end of a pipe and thaws
 * it when the pipe closes, which it does however this process ends.
 */
export function freeze(pid: number): Frozen {
  const keeper = spawn('/bin/sh', ['-c', 'read -r _; kill -CONT "$1" 2>/dev/null', 'thaw', String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // Not in the terminal's group: Ctrl-C must not take it away before its time.
    detached: true,
  });
  keeper.on('error', () => {});
  keeper.stdin.on('error', () => {});
  process.kill(pid, 'SIGSTOP');
  return {
    thaw: () => {
      try {
        process.kill(pid, 'SIGCONT');
      } catch {
        // It was killed while frozen.
      }
      keeper.stdin.end();
    },
  };
}
