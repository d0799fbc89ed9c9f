/**
 * Milliseconds by the machine's monotonic clock: never set back, the same in every thread of the process, and running
 * on while the process is frozen. Only differences mean anything.
 */
export function monotonicNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
