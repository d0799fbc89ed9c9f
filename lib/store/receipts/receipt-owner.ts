import type { OwnedRun } from '../../domain/runs/run.js';
import { fenceOf } from '../runs/fence.js';

/** The first five parameters of a receipt's functions: job, fire time, attempt, instance, and the page, if it is one's. */
export function receiptFence(run: OwnedRun): [string, string, number, string, string | null] {
  return [...fenceOf(run), run.page ?? null];
}

/** @param kept what a receipt keeps, as JSON; null for nothing */
export function readKept(kept: string | null): unknown {
  return kept === null ? undefined : (JSON.parse(kept) as unknown);
}
