import { createHash } from 'node:crypto';

/**
 * The delay of a job's starts, in milliseconds: a stable share of `jitterMs`, the same on every replica and every day.
 * @param gapMs time to the job's next fire time, which the delay never reaches; null when there is none
 */
export function jitterDelay(jobName: string, jitterMs: number, gapMs: number | null): number {
  if (jitterMs === 0) return 0;
  const share = createHash('sha256').update(jobName).digest().readUInt32BE(0) / 2 ** 32;
  return Math.floor(share * Math.min(jitterMs, gapMs ?? jitterMs));
}
