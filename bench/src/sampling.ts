import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * The median of each of these measurements, made by turns, so that what else the machine does meanwhile meets them all.
 * The first round counts for nothing: in it the code is cold.
 */
export async function mediansOf(samples: number, measurements: readonly (() => Promise<number>)[]): Promise<number[]> {
  const values = measurements.map((): number[] => []);
  for (let round = 0; round <= samples; round++) {
    for (const [index, measure] of measurements.entries()) {
      const value = await measure();
      if (round > 0) values[index]!.push(value);
    }
  }
  return values.map(median);
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** @param at 0 to 1: 0.99 is what one in a hundred exceeds */
export function quantile(values: readonly number[], at: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * at))]!;
}

/** What a program beside this one prints as JSON, run in a process of its own: nothing is warm in it. */
export async function inFreshProcess<Answer>(program: string, ...args: readonly string[]): Promise<Answer> {
  const path = fileURLToPath(new URL(program, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', path, ...args]);
  return JSON.parse(stdout) as Answer;
}
